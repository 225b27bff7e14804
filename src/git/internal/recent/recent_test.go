package recent_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/internal/recent"
)

// A repository keeps its value until others push it out; another credential is another repository.
func TestTheRepositoryUsedLongestAgoGoes(t *testing.T) {
	t.Parallel()
	made := 0
	values := recent.New(2, func() *int {
		made++
		n := made
		return &n
	})
	a, b := git.Repo{URL: "https://h/a"}, git.Repo{URL: "https://h/a", Token: "other"}
	for _, step := range []struct {
		repo git.Repo
		want int
	}{{a, 1}, {b, 2}, {a, 1}, {git.Repo{URL: "https://h/c"}, 3}, {a, 1}, {b, 4}} {
		if got := *values.Get(step.repo); got != step.want {
			t.Errorf("value %d, want %d", got, step.want)
		}
	}
}
