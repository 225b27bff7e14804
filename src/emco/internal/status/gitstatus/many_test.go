package gitstatus

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
)

// counter counts the requests to a Git server.
type counter struct {
	next http.Handler

	mu       sync.Mutex
	listings int // of references
	wants    int // commits that were asked for
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	c.mu.Lock()
	if strings.HasSuffix(r.URL.Path, "/info/refs") {
		c.listings++
	}
	c.wants += bytes.Count(body, []byte("want "))
	c.mu.Unlock()
	c.next.ServeHTTP(w, r)
}

func (c *counter) take() (listings, wants int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	listings, wants = c.listings, c.wants
	c.listings, c.wants = 0, 0
	return listings, wants
}

// Of 5,000 clusters with status branches, one in a hundred changes its report between two polls:
// a poll lists the references once, and fetches what changed.
func TestTWeALookFetchesWhatHasChanged(t *testing.T) {
	t.Parallel()
	const clusters, changed = 5000, 50
	names := make([]v2.ClusterKey, clusters)
	for i := range names {
		names[i] = v2.ClusterKey(fmt.Sprintf("edge+c%04d", i))
	}
	l := newLab(t, syncobjects.StatusRef, names...)
	count := &counter{next: l.server}
	front := httptest.NewServer(count)
	t.Cleanup(front.Close)
	for i := range l.fleet.clusters {
		l.fleet.clusters[i].Status.Repo = git.Repo{URL: front.URL + "/fleet.git"}
	}
	l.restart()
	l.sendAll(names, 1)
	if reports, _ := l.look(); len(reports) != clusters {
		t.Fatalf("%d reports were taken in, want %d", len(reports), clusters)
	}
	if listings, wants := count.take(); listings != 1 || wants != clusters {
		t.Errorf("the first look: %d listings, %d branches were fetched, want 1 and %d", listings, wants, clusters)
	}
	for round := range 3 {
		l.sendAll(names[round*changed:(round+1)*changed], uint64(round+2))
		reports, _ := l.look()
		if listings, wants := count.take(); listings != 1 || wants != changed || len(reports) != changed {
			t.Errorf("look %d: %d listings, %d branches were fetched, %d reports, want 1, %d and %d", round, listings, wants, len(reports), changed, changed)
		}
	}
	l.look()
	if listings, wants := count.take(); listings != 1 || wants != 0 {
		t.Errorf("a look at nothing new: %d listings, %d branches were fetched", listings, wants)
	}
}

// sendAll puts reports of clusters where their agents do, all at once.
func (l *gitFixture) sendAll(clusters []v2.ClusterKey, seq uint64) {
	l.Helper()
	var stream strings.Builder
	for _, name := range clusters {
		r := l.good(name, seq)
		if seq > 1 {
			r.Apps[0].Objects[0].Status = status.InProgress
		}
		text, err := status.Encode(r, 0)
		if err != nil {
			l.Fatal(err)
		}
		ref := "refs/heads/" + status.Branch(status.DefaultPrefix, string(name))
		fmt.Fprintf(&stream, "reset %s\ncommit %s\ncommitter a <a@localhost> %d +0000\ndata 0\nM 100644 inline %s\ndata %d\n%s\n", ref, ref, seq, status.File, len(text), text)
	}
	for _, step := range [][]string{{"fast-import", "--quiet", "--force"}, {"pack-refs", "--all"}} {
		if _, err := l.bare.Git(l.Context(), stream.String(), step...); err != nil {
			l.Fatal(err)
		}
		stream.Reset()
	}
}
