package batch_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// server serves one repository with a README over HTTP.
func server(t *testing.T) (*gittest.Server, gittest.Bare, git.Repo) {
	t.Helper()
	srv, err := gittest.Serve(t.TempDir(), gittest.User{Name: "emco", Token: "s3cr3t", Write: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	bare, err := srv.Seed(t.Context(), "fleet", "main")
	if err != nil {
		t.Fatal(err)
	}
	return srv, bare, git.Repo{URL: srv.URL("fleet"), User: "emco", Token: "s3cr3t"}
}

// committer commits as someone else, as fast as it can, some fifty times or until
// it is stopped.
func committer(t *testing.T, bare gittest.Bare) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	n := 0
	wg.Go(func() {
		for ctx.Err() == nil && n < 50 {
			_, err := bare.CommitExternal(ctx, "main", map[string]gittest.File{fmt.Sprintf("theirs/%d", n): {Content: "t"}})
			if err == nil {
				n++
			} else if ctx.Err() == nil {
				t.Errorf("foreign commit: %v", err)
				return
			}
		}
	})
	return func() int {
		cancel()
		wg.Wait()
		return n
	}
}

// Two control planes with twenty callers each write one branch, and so does
// someone else every few milliseconds: everything gets through, nothing is lost.
func TestManyWritersOnOneBranch(t *testing.T) {
	t.Parallel()
	_, bare, repo := server(t)
	host := plain.New(plain.Options{})
	var conflicts atomic.Int64
	stop := committer(t, bare)
	var wg sync.WaitGroup
	start := time.Now()
	for plane := range 2 {
		w := batch.New(host, batch.Options{Observe: func(e batch.Event) { conflicts.Add(int64(e.Conflicts)) }})
		defer w.Close()
		for i := range 20 {
			wg.Go(func() {
				for round := range 2 {
					path := fmt.Sprintf("clusters/p%d+c%d/f%d", plane, i, round)
					_, err := w.Submit(t.Context(), batch.Job{Repo: repo, Branch: "main", Edits: file(path, "x"), Title: "t"})
					if err != nil {
						t.Errorf("Submit(%s): %v", path, err)
					}
				}
			})
		}
	}
	wg.Wait()
	took := time.Since(start)
	theirs := stop()
	out, err := bare.Git(t.Context(), "", "ls-tree", "-r", "--name-only", "main")
	if err != nil {
		t.Fatal(err)
	}
	ours := strings.Count(out, "clusters/")
	if got := strings.Count(out, "theirs/"); ours != 80 || got < theirs || !strings.Contains(out, "README.md") {
		t.Errorf("the branch holds %d of our 80 files and %d of their %d", ours, got, theirs)
	}
	if err := bare.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
	if merges, err := bare.Git(t.Context(), "", "rev-list", "--count", "--first-parent", "main"); err != nil || merges == "1" {
		t.Errorf("history has %s commits, %v", merges, err)
	}
	t.Logf("80 changes with %d foreign commits and %d lost races in %v", theirs, conflicts.Load(), took)
}

// The connection breaks after the server took the push.
func TestLostReplyOnARealServer(t *testing.T) {
	t.Parallel()
	srv, bare, repo := server(t)
	w := batch.New(plain.New(plain.Options{}), batch.Options{})
	defer w.Close()
	srv.DropReplies(1)
	at, err := w.Submit(t.Context(), batch.Job{Repo: repo, Branch: "main", Edits: file("f", "x"), Title: "once"})
	if err != nil {
		t.Fatal(err)
	}
	n, err := bare.Git(t.Context(), "", "rev-list", "--count", "--grep=once", "main")
	if err != nil || n != "1" {
		t.Errorf("%s commits were made, %v, want 1", n, err)
	}
	if head, err := bare.Git(t.Context(), "", "rev-parse", "main"); err != nil || head != string(at) {
		t.Errorf("Submit returned %s, the branch is at %s, %v", at, head, err)
	}
	if _, pushes := srv.Requests(); pushes != 1 {
		t.Errorf("%d pushes were sent, want 1", pushes)
	}
}

// A link of someone else stands where one job wants to write.
func TestH57ALinkStopsOnlyItsJob(t *testing.T) {
	t.Parallel()
	_, bare, repo := server(t)
	if _, err := bare.CommitExternal(t.Context(), "main", map[string]gittest.File{"clusters/evil": {Mode: "120000", Content: "/etc"}}); err != nil {
		t.Fatal(err)
	}
	w := batch.New(plain.New(plain.Options{}), batch.Options{})
	defer w.Close()
	errs := make([]error, 10)
	var wg sync.WaitGroup
	for i := range errs {
		path := fmt.Sprintf("clusters/good%d/f", i)
		if i == 4 {
			path = "clusters/evil/passwd"
		}
		wg.Go(func() {
			_, errs[i] = w.Submit(t.Context(), batch.Job{Repo: repo, Branch: "main", Edits: file(path, "x"), Title: "t"})
		})
	}
	wg.Wait()
	for i, err := range errs {
		if bad := i == 4; bad != (err != nil) {
			t.Errorf("job %d: %v, want an error: %v", i, err, bad)
		}
	}
}

// A first commit into an empty repository, through a writer.
func TestH55EmptyRepository(t *testing.T) {
	t.Parallel()
	srv, _, repo := server(t)
	bare, err := srv.CreateRepo(t.Context(), "empty", "main")
	if err != nil {
		t.Fatal(err)
	}
	repo.URL = srv.URL("empty")
	w := batch.New(plain.New(plain.Options{}), batch.Options{Author: "Ops <ops@example.org>"})
	defer w.Close()
	j := batch.Job{Repo: repo, Branch: "main", Edits: file("f", "x"), Title: "first", Trailers: []git.Trailer{{Key: "Emco-Op", Value: "1"}}}
	if _, err := w.Submit(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	got, err := bare.Git(t.Context(), "", "log", "-1", "--format=%an %s %(trailers:key=Emco-Op,valueonly,separator=)", "main")
	if err != nil || got != "Ops first 1" {
		t.Errorf("git log shows %q, %v", got, err)
	}
}

// 200 writers on a real server for a while, with windows a twentieth of those of hosted
// servers: nothing is lost, and the pushes are as few.
func TestTWaManyWritersOnARealServer(t *testing.T) {
	t.Parallel()
	srv, bare, repo := server(t)
	host := plain.New(plain.Options{})
	w := batch.New(host, batch.Options{HostedWindow: 500 * time.Millisecond, Hosted: func(git.Repo) bool { return true }})
	start := time.Now()
	files := storm(t, w, repo, 200, 3*time.Second)
	w.Close()
	took := time.Since(start)
	got, err := bare.ShowAll(t.Context(), "main", slices.Collect(maps.Keys(files)))
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range files {
		if got[path] != content {
			t.Errorf("%s holds %q, want %q", path, got[path], content)
		}
	}
	if err := bare.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
	if _, pushes := srv.Requests(); pushes > 1+int(took/(500*time.Millisecond)) {
		t.Errorf("%d pushes in %s, want one a window", pushes, took)
	}
}

// Attributes that have a checkout change line ends and contents change nothing of what is written.
func TestH57BytesAreAsWritten(t *testing.T) {
	t.Parallel()
	_, bare, repo := server(t)
	attributes := gittest.File{Content: "* text=auto eol=crlf ident filter=lfs\n"}
	if _, err := bare.CommitExternal(t.Context(), "main", map[string]gittest.File{".gitattributes": attributes}); err != nil {
		t.Fatal(err)
	}
	w := batch.New(plain.New(plain.Options{}), batch.Options{})
	defer w.Close()
	files := map[string]string{"App/a.yaml": "a: 1\r\nb: $Id$\n", "app/a.yaml": "in lower case\n", "bytes": "\x00\xff\r"}
	for path, content := range files {
		if _, err := w.Submit(t.Context(), batch.Job{Repo: repo, Branch: "main", Edits: file(path, content), Title: "t"}); err != nil {
			t.Fatal(err)
		}
	}
	for path, content := range files {
		if got, err := bare.Show(t.Context(), "main", path); err != nil || got != content {
			t.Errorf("%s holds %q, %v, want %q", path, got, err, content)
		}
	}
}
