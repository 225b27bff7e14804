package queue

import (
	"errors"
	"fmt"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

func TestOneReachedTargetRequeuesTheOthers(t *testing.T) {
	t.Parallel()
	var l Unreachable
	away, refused := errs.E(errs.Unavailable, "push", "repo", errors.New("no route")), errs.New(errs.Invalid, "no")
	of := func(cluster string, err error) pair.Result {
		return pair.Result{Key: appcontext.PairKey{Cluster: v2.ClusterKey(cluster), Deployment: "7", App: "web"}, Err: err}
	}
	for _, tt := range []struct {
		name string
		lane string
		out  []pair.Result
		want string
	}{
		{"nobody is reached", "git", []pair.Result{of("a", away), of("b", away), of("c", refused)}, "[]"},
		{"one in another lane is", "other", []pair.Result{of("x", nil)}, "[]"},
		{"one is: those that could not be, but not what was refused", "git", []pair.Result{of("a", nil)}, "[{b 7}]"},
		{"once", "git", []pair.Result{of("a", nil)}, "[]"},
		{"one that failed in the same delivery waits for its retry", "git", []pair.Result{of("a", nil), of("b", away)}, "[]"},
		{"and comes along later", "git", []pair.Result{of("a", nil)}, "[{b 7}]"},
		{"a repository is gone", "old", []pair.Result{of("a", away), of("b", away)}, "[]"},
		{"its clusters are elsewhere: one that is reached there brings the others along", "new", []pair.Result{of("b", nil)}, "[{a 7}]"},
	} {
		if got := fmt.Sprint(l.Update(tt.lane, tt.out)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
