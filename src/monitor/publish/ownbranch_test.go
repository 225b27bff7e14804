package publish

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// site is a real Git server on which the edge may write status and nothing else.
type site struct {
	*testing.T
	server *gittest.Server
	bare   gittest.Bare
	host   *plain.Host
	repo   git.Repo
}

func newSite(t *testing.T, growsOnly bool) *site {
	t.Helper()
	srv, err := gittest.Serve(t.TempDir(), gittest.User{Name: "edge", Token: "x", Write: true, Only: "refs/heads/status/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	s := &site{T: t, server: srv, host: plain.New(plain.Options{}), repo: git.Repo{URL: srv.URL("status"), User: "edge", Token: "x"}}
	t.Cleanup(func() { _ = s.host.Close() })
	if s.bare, err = srv.Seed(t.Context(), "status", "main"); err != nil {
		t.Fatal(err)
	}
	if err := s.bare.Config(t.Context(), "receive.denyNonFastForwards", fmt.Sprint(growsOnly)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) open() (git.Repo, error) { return s.repo, nil }

func (s *site) writer(cluster string) *OwnBranch {
	return NewOwnBranch(s.host, s.open, status.DefaultPrefix, cluster, 0, slog.New(slog.DiscardHandler))
}

// read returns what a cluster's branch holds, and how many commits.
func (s *site) read(cluster string) (status.Report, string) {
	s.Helper()
	branch := status.Branch(status.DefaultPrefix, cluster)
	text, err := s.bare.Show(s.Context(), branch, status.File)
	if err != nil {
		s.Fatal(err)
	}
	r, err := status.Decode([]byte(text))
	if err != nil {
		s.Fatal(err)
	}
	n, err := s.bare.Git(s.Context(), "", "rev-list", "--count", branch)
	if err != nil {
		s.Fatal(err)
	}
	return r, n
}

func report(cluster, reason string) status.Report {
	return status.Report{Cluster: cluster, At: time.Now(), Apps: []status.App{{Label: "42-web", Error: reason}}}
}

func (s *site) write(b Writer, cluster, reason string) {
	s.Helper()
	if err := b.Write(s.Context(), report(cluster, reason)); err != nil {
		s.Fatal(err)
	}
}

// The branch holds one commit however often is reported, each report has a higher
// sequence than the one before, also after a restart, and the branches of others are
// not touched.
func TestBranchesKeepOneReport(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	s.write(s.writer("edge+b"), "edge+b", "other")
	a, last := s.writer("edge+a"), uint64(0)
	for i := range 4 {
		if i == 2 {
			a = s.writer("edge+a") // a restart
		}
		s.write(a, "edge+a", fmt.Sprint("news ", i))
		r, commits := s.read("edge+a")
		if r.Seq <= last || r.Apps[0].Error != fmt.Sprint("news ", i) || commits != "1" {
			t.Errorf("report %d has sequence %d after %d with the error %q, in %s commits", i, r.Seq, last, r.Apps[0].Error, commits)
		}
		last = r.Seq
	}
	if r, _ := s.read("edge+b"); r.Apps[0].Error != "other" {
		t.Errorf("the report of another cluster is %+v", r)
	}
}

// Where branches may only grow, they do.
func TestBranchesGrowWhereTheyMust(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	a := s.writer("edge+a")
	for i := range 3 {
		s.write(a, "edge+a", fmt.Sprint("news ", i))
	}
	if r, commits := s.read("edge+a"); r.Apps[0].Error != "news 2" || commits != "3" || !a.appendOnly {
		t.Errorf("the branch has the error %q in %s commits", r.Apps[0].Error, commits)
	}
}

// Two processes of one agent, as during a rollout, overtake each other and destroy
// nothing. A reply that was lost is found out about.
func TestTheBranchMayMoveMeanwhile(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	a, b := s.writer("edge+a"), s.writer("edge+a")
	s.write(a, "edge+a", "a1")
	s.write(b, "edge+a", "b1")
	s.write(a, "edge+a", "a2")
	first, _ := s.read("edge+a")
	if first.Apps[0].Error != "a2" {
		t.Errorf("the branch has the error %q, want a2", first.Apps[0].Error)
	}
	s.server.DropReplies(1)
	if err := a.Write(t.Context(), report("edge+a", "a3")); !errs.Is(err, errs.Unavailable) {
		t.Errorf("a push without a reply: %v, want Unavailable", err)
	}
	s.write(a, "edge+a", "a4")
	if r, commits := s.read("edge+a"); r.Apps[0].Error != "a4" || r.Seq < first.Seq+2 || commits != "1" {
		t.Errorf("the branch has the error %q with sequence %d, in %s commits", r.Apps[0].Error, r.Seq, commits)
	}
}

// A last report that is no report does not stop the agent, and one that is lost does not
// make it begin at one.
func TestTheBranchMayHoldNonsense(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	branch := status.Branch(status.DefaultPrefix, "edge+a")
	if _, err := s.bare.CommitExternal(t.Context(), branch, map[string]gittest.File{status.File: {Content: strings.Repeat("x", 5<<20)}}); err != nil {
		t.Fatal(err)
	}
	began := uint64(time.Now().Unix())
	s.write(s.writer("edge+a"), "edge+a", "news")
	if r, _ := s.read("edge+a"); r.Seq < began {
		t.Errorf("sequence is %d, want at least the clock's %d", r.Seq, began)
	}
}

func TestRefusalsAreTold(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	s.server.Answer(1, http.StatusTooManyRequests, time.Minute)
	if err := s.writer("edge+a").Write(t.Context(), report("edge+a", "x")); !errs.Is(err, errs.Throttled) {
		t.Errorf("a server that is busy: %v, want Throttled", err)
	}
	s.repo.Token = "wrong"
	err := s.writer("edge+a").Write(t.Context(), report("edge+a", "x"))
	if !errs.Is(err, errs.Unauthorized) || strings.Contains(err.Error(), "wrong") {
		t.Errorf("a wrong token: %v, want Unauthorized", err)
	}
	s.repo.Token = "x"
	other := NewOwnBranch(s.host, s.open, "desired/", "edge+a", 0, slog.New(slog.DiscardHandler))
	if err := other.Write(t.Context(), report("edge+a", "x")); !errs.Is(err, errs.Forbidden) {
		t.Errorf("a branch that is not for status: %v, want Forbidden", err)
	}
	commits := batch.New(s.host, batch.Options{})
	defer commits.Close()
	if err := NewSharedBranch(s.host, commits, s.open, "main", "edge+a").Write(t.Context(), report("edge+a", "x")); !errs.Is(err, errs.Forbidden) {
		t.Errorf("the branch of what is desired: %v, want Forbidden", err)
	}
}
