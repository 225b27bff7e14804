package grants_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/access/grants"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const ann = "user:corp:ann"

// live returns which of the sessions of ann a process knows as live.
func (i *installation) live(c *grants.Cache, ids ...string) (live []string) {
	i.Helper()
	if err := c.Refresh(i.Context()); err != nil {
		i.Fatal(err)
	}
	for _, id := range ids {
		ok, err := c.LiveSession(ann, id)
		if err != nil {
			i.Fatal(err)
		}
		if ok {
			live = append(live, id)
		}
	}
	return live
}

func (i *installation) begin(c *grants.Cache, subject, id string, most int) {
	i.Helper()
	if err := c.BeginSession(i.Context(), subject, grants.Session{ID: id, Ends: i.now.Add(8 * time.Hour)}, most); err != nil {
		i.Fatal(err)
	}
}

func (i *installation) end(c *grants.Cache, id string) {
	i.Helper()
	if err := c.EndSession(i.Context(), ann, id); err != nil {
		i.Fatal(err)
	}
}

func (i *installation) wantLive(c *grants.Cache, want ...string) {
	i.Helper()
	if got := i.live(c, "1", "2", "3", "4"); !slices.Equal(got, want) {
		i.Errorf("live sessions: %v, want %v", got, want)
	}
}

func TestSessionsOfAllProcesses(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	a, b := i.process(), i.process()
	i.begin(a, ann, "1", 3)
	i.begin(b, ann, "2", 3)
	i.begin(a, "user:corp:bob", "4", 3)
	i.wantLive(a, "1", "2")
	i.wantLive(b, "1", "2")
	i.end(b, "1")
	i.wantLive(b, "2")
	i.wantLive(a, "2")
	i.end(a, "nosuch")
	i.begin(a, ann, "3", 2)
	i.begin(a, ann, "4", 2) // the oldest ends
	i.wantLive(b, "3", "4")
	i.end(a, "")
	i.wantLive(b)
	i.wantLive(i.process())
	if ok, err := a.LiveSession("user:corp:bob", "4"); err != nil || !ok {
		t.Errorf("the session of another person: %v, %v", ok, err)
	}
}

// Sessions end at their time, and their documents go when others sign in.
func TestSessionsLeaveNothing(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	c := i.process()
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		i.begin(c, fmt.Sprint("user:corp:", n), "x", 3)
	}
	i.begin(c, ann, "1", 3)
	i.now = i.now.Add(8 * time.Hour)
	i.wantLive(c)
	count := func() (n int) {
		for _, err := range i.db.List(t.Context(), "sessions", store.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	before := count()
	i.begin(c, ann, "2", 3)
	i.begin(c, ann, "3", 3)
	if now := count(); before != 21 || now != 1 {
		t.Errorf("%d documents, then %d", before, now)
	}
	i.wantLive(c, "2", "3")
}

// Processes that write at the same time lose none of the sessions.
func TestSessionsThatBeginTogether(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	var all sync.WaitGroup
	for _, id := range []string{"1", "2", "3", "4"} {
		c := i.process()
		all.Go(func() {
			if err := c.BeginSession(t.Context(), ann, grants.Session{ID: id, Ends: i.now.Add(time.Hour)}, 10); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	i.wantLive(i.process(), "1", "2", "3", "4")
}
