package plain_test

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// Traps of writing to Git servers, and where each is shown to be avoided:
//
//	a large push is chunked, which CGI servers refuse or cut    TestTrapLargePushesArriveWhole
//	a receive-pack that gets no request waits for ever          TestTrapALostRaceEndsTheServer
//	a git child never ends                                      TestTrapChildrenHaveADeadline
//	a server answers, and loses power before it is on disk      TestTrapServersOfOursMaySync
//	a reply is lost after the push                              TestH53ALostReplyMakesNoSecondCommit (batch)
//	an answer that is no Git: a login page                      TestHostileServers

func TestTrapLargePushesArriveWhole(t *testing.T) {
	t.Parallel()
	srv, err := gittest.Serve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	bare, err := srv.Seed(t.Context(), "fleet", "main")
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, 5<<20) // which cannot be compressed below what is sent with its length
	_, _ = rand.Read(content)
	h, r := plain.New(plain.Options{}), git.Repo{URL: srv.URL("fleet")}
	head, err := h.Head(t.Context(), r, "main")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Commit(t.Context(), r, "main", head, []git.Edit{{Path: "f", File: content}}, git.Message{}); err != nil {
		t.Fatal(err)
	}
	if got, err := bare.Show(t.Context(), "main", "f"); err != nil || got != string(content) {
		t.Errorf("%d bytes arrived, %v, want %d", len(got), err, len(content))
	}
}

// The branch has moved, so the writer sends nothing to the service that it has started. The
// service must end, and later writers must not wait for it.
func TestTrapALostRaceEndsTheServer(t *testing.T) {
	t.Parallel()
	bare, err := gittest.Init(t.Context(), filepath.Join(t.TempDir(), "r.git"), "main")
	if err != nil {
		t.Fatal(err)
	}
	h, r := plain.New(plain.Options{AllowFile: true}), git.Repo{URL: "file://" + bare.Dir}
	stale, err := h.Commit(t.Context(), r, "main", "", []git.Edit{{Path: "f", File: []byte("0")}}, git.Message{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bare.CommitExternal(t.Context(), "main", map[string]gittest.File{"theirs": {Content: "x"}}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, err := h.Commit(t.Context(), r, "main", stale, []git.Edit{{Path: "f", File: fmt.Append(nil, "writer ", i)}}, git.Message{})
			if !errs.Is(err, errs.Conflict) {
				t.Errorf("writer %d: %v, want Conflict", i, err)
			}
		})
	}
	wg.Wait()
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestTrapChildrenHaveADeadline(t *testing.T) {
	t.Parallel()
	h := plain.New(plain.Options{AllowFile: true, Git: script(t, "exec sleep 600"), Timeout: 300 * time.Millisecond})
	start := time.Now()
	_, err := h.Head(t.Context(), git.Repo{URL: "file://" + t.TempDir()}, "main")
	if took := time.Since(start); !errs.Is(err, errs.Unavailable) || took > 30*time.Second {
		t.Errorf("a silent git: %v after %s, want Unavailable", err, took)
	}
}

// By default git does not sync loose objects; servers of our own are configured to.
func TestTrapServersOfOursMaySync(t *testing.T) {
	t.Parallel()
	bare, err := gittest.Init(t.Context(), filepath.Join(t.TempDir(), "r.git"), "main")
	if err != nil {
		t.Fatal(err)
	}
	if err := bare.Config(t.Context(), "core.fsync", "all"); err != nil {
		t.Fatal(err)
	}
	h := plain.New(plain.Options{AllowFile: true})
	if _, err := h.Commit(t.Context(), git.Repo{URL: "file://" + bare.Dir}, "main", "", []git.Edit{{Path: "f", File: []byte("x")}}, git.Message{}); err != nil {
		t.Error(err)
	}
	if err := bare.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
}
