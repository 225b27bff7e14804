package app_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// A restored backup lacks a cluster, which is then registered again.
func TestH62AClusterRegisteredAnewIsNotGivenTheOldState(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.running("a", "b")
	id := g.becomes("Instantiated").States.StatusCtxID
	s.expect(409, "DELETE", provider+"/clusters/a", "") // in use

	s.stop()
	s.inside(func(ctx context.Context, db *store.DB, _ *clientv3.Client) {
		for _, key := range []string{cloud + "/cluster-references/a", provider + "/clusters/a/labels/all", provider + "/clusters/a"} {
			s.must("lose "+key, db.Delete(ctx, store.Key(key), nil))
		}
	})
	s.start()
	other := s.second("a")
	s.stop() // what is noticed when it starts is what is looked at here
	s.start()

	s.eventually("the status reports another cluster", func() string {
		p := pair(g.status(), "web", "a")
		if p.Phase != "Failed" || !strings.Contains(p.Error, "registered again") {
			return fmt.Sprintf("phase %s, error %q", p.Phase, p.Error)
		}
		return ""
	})
	st := g.becomes("InstantiateFailed")
	if p := pair(st, "web", "b"); p.Phase != "Applied" {
		t.Errorf("the other cluster: %+v", p)
	}
	wantFiles(s, other, "README.md")

	g.expect(202, "POST", g.path+"/update", "")
	st = g.becomes("Instantiated")
	if p := pair(st, "web", "a"); p.Phase != "Applied" || p.Revision != 2 || p.Error != "" {
		t.Errorf("after the update: %+v", p)
	}
	wantFiles(s, other, "README.md", object("a", id, "web"))
	g.act("terminate")
	g.becomes("Terminated")
	wantFiles(s, other, "README.md")
}

func wantFiles(s *testStage, bare gittest.Bare, want ...string) {
	s.Helper()
	out, err := bare.Git(s.Context(), "", "ls-tree", "-r", "--name-only", branch)
	s.must("list the branch", err)
	wantEqual(s, "files of "+bare.Dir, strings.Fields(out), want)
}
