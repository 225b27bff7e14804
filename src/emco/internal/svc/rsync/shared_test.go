package rsync

import (
	"strings"
	"testing"
)

// Two deployments place the same object on a cluster. The later one has a finding that names
// the other.
func TestF76DeploymentsThatShareAnObject(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 2)
	w.start(w.process("one", nil))
	w.wish("7", "green", "edge+c0")
	w.applied(1, 1)
	w.wish("8", "red", "edge+c0", "edge+c1")
	w.applied(3, 1)
	pairs := w.pairs()
	const want = "v1 ConfigMap default/settings is also placed by the group, app web: they overwrite each other; rename one"
	for at, findings := range map[string]int{"edge+c0 8": 1, "edge+c1 8": 0, "edge+c0 7": 0} {
		if got := pairs[at].Findings; len(got) != findings || findings == 1 && !strings.HasPrefix(got[0], want) {
			t.Errorf("%s has the findings %q", at, got)
		}
	}
}
