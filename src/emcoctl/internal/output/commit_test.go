package output

import (
	"strings"
	"testing"
)

func TestCommitShowsTheDigitsOfCommitsAndDigests(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("0123456789abcdef", 4)
	for id, want := range map[string]string{digits[:40]: "0123456789ab", "sha256:" + digits: "0123456789ab", "abc": "abc", "": ""} {
		if got := Commit(id); got != want {
			t.Errorf("%q is shown as %q, want %q", id, got, want)
		}
	}
}
