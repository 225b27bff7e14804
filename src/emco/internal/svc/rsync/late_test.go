package rsync

import (
	"errors"
	"fmt"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

func TestWhoeverIsReachedBringsTheOthersAlong(t *testing.T) {
	t.Parallel()
	var l late
	away, refused := errs.E(errs.Unavailable, "push", "repo", errors.New("no route")), errs.New(errs.Invalid, "no")
	of := func(cluster string, err error) outcome {
		return outcome{key: appcontext.PairKey{Cluster: cluster, UID: "7", App: "web"}, err: err}
	}
	for _, tt := range []struct {
		name string
		lane string
		out  []outcome
		want string
	}{
		{"nobody is reached", "git", []outcome{of("a", away), of("b", away), of("c", refused)}, "[]"},
		{"one in another lane is", "other", []outcome{of("x", nil)}, "[]"},
		{"one is: those that could not be, but not what was refused", "git", []outcome{of("a", nil)}, "[{b 7}]"},
		{"once", "git", []outcome{of("a", nil)}, "[]"},
		{"one that failed beside it just now waits for its time", "git", []outcome{of("a", nil), of("b", away)}, "[]"},
		{"and comes along later", "git", []outcome{of("a", nil)}, "[{b 7}]"},
		{"a repository is gone", "old", []outcome{of("a", away), of("b", away)}, "[]"},
		{"its clusters are elsewhere: one that is reached there brings the others along", "new", []outcome{of("b", nil)}, "[{a 7}]"},
	} {
		if got := fmt.Sprint(l.note(tt.lane, tt.out)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
