package rsync

import (
	"fmt"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// Two deployments place the same object on a cluster. Both have a finding that names the other, until one of them leaves the cluster.
func TestF76DeploymentsThatShareAnObject(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 2)
	w.start(w.process("one", nil))
	w.wish("7", "green", "edge+c0")
	w.applied(1, 1)
	w.wish("8", "red", "edge+c0", "edge+c1")
	w.applied(3, 1)
	pairs := w.pairs()
	const finding = "v1 ConfigMap default/settings is also placed by the group, app web: they overwrite each other; rename one"
	for at, want := range map[string]string{"edge+c0 7": "[" + finding + "]", "edge+c0 8": "[" + finding + "]", "edge+c1 8": "[]"} {
		if got := fmt.Sprint(pairs[at].Overlaps); got != want {
			t.Errorf("%s has the overlaps %s, want %s", at, got, want)
		}
	}
	w.wish("8", "red", "edge+c1")
	w.until("the end of 8 on c0", func(pairs map[string]appcontext.Pair) bool { return len(pairs) == 2 })
	if got := w.pairs()["edge+c0 7"].Overlaps; len(got) > 0 {
		t.Errorf("after 8 has left the cluster, 7 has the overlaps %q", got)
	}
}

// The same on a direct cluster: of the objects of two apps one is shared. Findings about what was delivered stay.
func TestDeploymentsThatShareAnObjectOnADirectCluster(t *testing.T) {
	t.Parallel()
	w := newWorksOnServer(t)
	const settings, own = `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: default}, frob: 1}`, `{apiVersion: v1, kind: ConfigMap, metadata: {name: own, namespace: default}}`
	w.deploy("7", map[string]string{"web": settings, "cache": own})
	w.phases("7", "cache Applied 0 web Applied 0 ")
	w.deploy("8", map[string]string{"db": settings})
	w.phases("8", "db Applied 0 ")
	const text = "v1 ConfigMap default/settings is also placed by the group, app %s: they overwrite each other; rename one"
	want := map[string]string{"cache": "", "web": fmt.Sprintf(text, "db"), "db": fmt.Sprintf(text, "web")}
	for p, err := range w.contexts.Pairs(t.Context()) {
		w.must(err)
		if got := fmt.Sprint(p.Overlaps); got != "["+want[p.Key.App]+"]" {
			t.Errorf("app %s has the overlaps %s, want %q", p.Key.App, got, want[p.Key.App])
		}
		if delivered := p.Key.App != "cache"; (len(p.Findings) > 0) != delivered {
			t.Errorf("app %s has the findings %q", p.Key.App, p.Findings)
		}
	}
}
