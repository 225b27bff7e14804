package agentreports

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// unread is a report of a cluster whose agent may not read the object; the reconciler applied the commit.
func unread(cluster v2.ClusterKey, seq uint64, commit git.Hash) status.Report {
	r := good(cluster, seq, "")
	r.Apps[0].Commit = string(commit)
	r.Apps[0].Objects[0].Content, r.Apps[0].Objects[0].Unread = "", true
	return r
}

// A report that needs the history of a repository waits for its server alone: reports of other
// clusters, and later ones of the same cluster, are delivered meanwhile.
func TestAGitServerThatHangsDelaysNoOtherReport(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 16)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	host := plain.New(plain.Options{Admit: func(netip.Addr) error { return nil }})
	t.Cleanup(func() { _ = host.Close() })

	l := newLab(t, "edge+a", "edge+b")
	applied, holds := git.Hash(strings.Repeat("a", 40)), git.Hash(strings.Repeat("b", 40))
	l.fleet.holds("edge+a", git.Repo{URL: server.URL + "/fleet.git"}, holds)
	p := l.process()
	a, b := p.token("edge+a", ""), p.token("edge+b", "")
	counted := &countedHistory{HistoryReader: host}
	t.Cleanup(func() { // after the end of the source
		if n := counted.underWay.Load(); n != 0 {
			t.Errorf("%d reads go on after the source has ended", n)
		}
	})
	reports := l.listenWith(counted, time.Minute)
	p.want(http.StatusNoContent, a, unread("edge+a", 1, applied))
	etcdtest.Receive(t, asked, "a question to the Git server")
	for _, want := range []struct{ token, report string }{{b, "edge+b#1 well"}, {a, "edge+a#2 well"}} {
		cluster, rest, _ := strings.Cut(want.report, "#")
		p.want(http.StatusNoContent, want.token, good(v2.ClusterKey(cluster), uint64(rest[0]-'0'), "well"))
		l.eventually(want.report, func() bool { return slices.Contains(reports(), want.report) })
	}
	if got := reports(); len(got) != 2 {
		t.Errorf("delivered were %q, want nothing of a report whose proof is being read", got)
	}
	if n := counted.underWay.Load(); n != 1 {
		t.Errorf("%d reads are under way, want the one that hangs", n)
	}
}

// countedHistory counts the reads under way.
type countedHistory struct {
	git.HistoryReader
	underWay atomic.Int32
}

func (c *countedHistory) History(ctx context.Context, r git.Repo, commit git.Hash, depth int) (map[git.Hash][]git.Hash, error) {
	c.underWay.Add(1)
	defer c.underWay.Add(-1)
	return c.HistoryReader.History(ctx, r, commit, depth)
}

// gatedHistory is a server that answers when it is opened: no commit has a parent but those given.
type gatedHistory struct {
	asked, opened chan struct{}
	parents       map[git.Hash][]git.Hash
}

func (g *gatedHistory) History(ctx context.Context, _ git.Repo, _ git.Hash, _ int) (map[git.Hash][]git.Hash, error) {
	g.asked <- struct{}{}
	select {
	case <-g.opened:
		return g.parents, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Of two reports that need a proof, the later one wins: the proof of the earlier one delivers nothing.
func TestTheLaterOfTwoReportsThatNeedAProofWins(t *testing.T) {
	t.Parallel()
	g := &gatedHistory{make(chan struct{}, 16), make(chan struct{}), map[git.Hash][]git.Hash{"first": nil, "second": {"holds"}, "holds": {"first"}}}
	l := newLab(t, "edge+a", "edge+b")
	l.fleet.holds("edge+a", git.Repo{URL: "https://git.example/fleet"}, "holds")
	p := l.process()
	a, b := p.token("edge+a", ""), p.token("edge+b", "")
	reports := l.listenWith(g, time.Minute)
	p.want(http.StatusNoContent, a, unread("edge+a", 1, "first"))
	etcdtest.Receive(t, g.asked, "a question to the Git server")
	p.want(http.StatusNoContent, a, unread("edge+a", 2, "second"))
	p.want(http.StatusNoContent, b, good("edge+b", 1, "well")) // stored later than the other, so it is processed later
	l.eventually("a report without a proof", func() bool { return len(reports()) > 0 })
	close(g.opened)
	l.eventually("a report with a proof", func() bool { return slices.Contains(reports(), "edge+a#2 ") })
	if got := reports(); !slices.Equal(got, []string{"edge+b#1 well", "edge+a#2 "}) {
		t.Errorf("delivered were %q", got)
	}
}
