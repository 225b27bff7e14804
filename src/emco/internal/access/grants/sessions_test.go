package grants_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/access/grants"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
)

const ann = "user:corp:ann"

// live returns which of the sessions of ann a process knows as live.
func (i *installation) live(c *grants.Cache, ids ...string) (live []string) {
	i.Helper()
	for _, id := range ids {
		ok, err := c.LiveSession(i.Context(), ann, id)
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
	if err := c.BeginSession(i.Context(), subject, id, grants.SignIn{}, i.now.Add(8*time.Hour), most); err != nil {
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
	if ok, err := a.LiveSession(t.Context(), "user:corp:bob", "4"); err != nil || !ok {
		t.Errorf("the session of another person: %v, %v", ok, err)
	}
}

// documents returns the bodies of the documents of sessions.
func (i *installation) documents() (bodies []string) {
	i.Helper()
	for doc, err := range i.db.List(i.Context(), "sessions", store.Query{}) {
		if err != nil {
			i.Fatal(err)
		}
		bodies = append(bodies, string(doc.Body))
	}
	return bodies
}

// Sessions end at their time, and each minute some of their documents go.
func TestSessionsLeaveNothing(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	c := i.process()
	for n := range 70 {
		i.begin(c, fmt.Sprint("user:corp:", n), "x", 3)
	}
	i.begin(c, ann, "1", 3)
	i.now = i.now.Add(8 * time.Hour)
	i.wantLive(c)
	i.begin(c, ann, "2", 3)
	before := len(i.documents())
	i.run(c, func() bool { return len(i.documents()) <= 71-64 })
	once := len(i.documents())
	i.now = i.now.Add(time.Minute)
	i.run(c, func() bool { return len(i.documents()) == 1 })
	if before != 71 || once != 71-64 {
		t.Errorf("%d documents, and %d after a minute", before, once)
	}
	i.wantLive(c, "2")
}

// run runs a process until something is so.
func (i *installation) run(c *grants.Cache, done func() bool) {
	i.Helper()
	ctx, cancel := context.WithTimeout(i.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for !done() && ctx.Err() == nil {
		runtime.Gosched()
	}
	failure := ctx.Err()
	cancel()
	if err := errors.Join(failure, <-ended); err != nil {
		i.Fatal(err)
	}
}

// stuck is a driver that removes nothing.
type stuck struct {
	store.Driver
	tries atomic.Int64
}

func (s *stuck) Remove(context.Context, store.Key, int64) error {
	s.tries.Add(1)
	return errs.New(errs.Unavailable, "the disk is read-only")
}

// What cannot be removed is logged, and no sign-in waits for it.
func TestSessionsThatStayAreLogged(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	driver, err := sqlite.Open(filepath.Join(t.TempDir(), "documents.db"), sqlite.WithoutFsync())
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	broken := &stuck{Driver: driver}
	i.db = store.New(broken, nil, seal.New(seal.NewKey()))
	var log lockedLog
	c := grants.New(i.db, slog.New(slog.NewTextHandler(&log, nil)), i.clock)
	i.begin(c, "user:corp:bob", "1", 3)
	i.now = i.now.Add(8 * time.Hour)
	i.begin(c, ann, "2", 3)
	if broken.tries.Load() > 0 {
		t.Error("a sign-in removes what others left")
	}
	i.run(c, func() bool { return log.String() != "" })
	if got := log.String(); !strings.Contains(got, "stay in the document store") || !strings.Contains(got, "read-only") {
		t.Errorf("the log: %s", got)
	}
}

// lockedLog is a log that is read while it is written.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Who reads the documents does not learn the ids of sessions, without which no cookie can be made. Sessions that were
// stored with their ids have ended.
func TestIDsOfSessionsAreNotStored(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	c := i.process()
	i.begin(c, ann, "an-id-of-a-session", 3)
	all := i.documents()
	if len(all) != 1 || strings.Contains(all[0], "an-id-of-a-session") {
		t.Fatalf("the documents: %s", all)
	}
	var stored struct{ Sessions []struct{ Digest string } }
	if err := json.Unmarshal([]byte(all[0]), &stored); err != nil {
		t.Fatal(err)
	}
	if live := i.live(c, "an-id-of-a-session", stored.Sessions[0].Digest, ""); !slices.Equal(live, []string{"an-id-of-a-session"}) {
		t.Errorf("live sessions: %q", live)
	}

	for doc, err := range i.db.List(t.Context(), "sessions", store.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf(`{"sessions":[{"id":"1","ends":%q}]}`, i.now.Add(time.Hour).Format(time.RFC3339))
		if _, err := i.db.Replace(t.Context(), store.Write{Key: doc.Key, Body: []byte(body)}, doc.Rev); err != nil {
			t.Fatal(err)
		}
	}
	i.wantLive(c)
	i.begin(c, ann, "2", 3)
	i.wantLive(c, "2")
	if all := i.documents(); len(all) != 1 || strings.Contains(all[0], `"id"`) {
		t.Errorf("the documents: %s", all)
	}
}

// Processes that write at the same time lose none of the sessions.
func TestSessionsThatBeginTogether(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	var all sync.WaitGroup
	for _, id := range []string{"1", "2", "3", "4"} {
		c := i.process()
		all.Go(func() {
			if err := c.BeginSession(t.Context(), ann, id, grants.SignIn{}, i.now.Add(time.Hour), 10); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	i.wantLive(i.process(), "1", "2", "3", "4")
}
