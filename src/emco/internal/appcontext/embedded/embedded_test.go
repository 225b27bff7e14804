package embedded_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if os.Getenv(childFull) == "" {
			runChild(dir)
		} else if err := runFull(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	etcdtest.SmallLog()
	goleak.VerifyTestMain(m)
}

// start runs a server that the test ends.
func start(t *testing.T, o embedded.Options) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestDataOutlivesARestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "if", "absent")
	content := []byte(strings.Repeat("kind: ConfigMap\n", 100))
	d := manifest.DigestOf(content)
	for life := range 3 {
		server := start(t, embedded.Options{Dir: dir}) // with fsync
		s := appcontext.New(server.Client(), "/emco")
		from := appcontext.Head{}
		if life > 0 {
			got, err := s.GetBlob(t.Context(), d)
			if err != nil || !bytes.Equal(got, content) {
				t.Fatalf("life %d: the content is %d bytes, %v; want it whole", life, len(got), err)
			}
			if from, err = s.Head(t.Context(), "7"); err != nil || from.Seq != int64(life) {
				t.Fatalf("life %d: the head is %+v, %v; want %d actions", life, from, err, life)
			}
		}
		if _, err := s.ChangeHead(t.Context(), from, appcontext.Head{UID: "7"}, make([]appcontext.HistoryEntry, 1), nil); err != nil {
			t.Fatal(err)
		}
		if err := s.PutBlobs(t.Context(), map[manifest.Digest][]byte{d: content}); err != nil {
			t.Fatal(err)
		}
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-server.Stopped():
		default:
			t.Error("the server has not stopped after Close")
		}
	}
}

// Programs that start at any time have copies of the server's files for a moment.
func TestARestartSucceedsWhileProgramsStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var programs sync.WaitGroup
	for range 4 {
		programs.Go(func() {
			for ctx.Err() == nil {
				if err := exec.CommandContext(ctx, "true").Run(); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer programs.Wait()
	defer cancel()

	dir := t.TempDir()
	for life := range 15 {
		server, err := embedded.Start(t.Context(), embedded.Options{Dir: dir, NoFsync: true})
		if err != nil {
			t.Fatalf("life %d: %v", life, err)
		}
		if err := server.Close(); err != nil {
			t.Fatalf("life %d: %v", life, err)
		}
	}
}

// A former life of a process that is alone on its store does not stand in its way.
func TestOwnershipAfterACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, embedded.Options{Dir: dir, NoFsync: true})
	old, err := appcontext.New(first.Client(), "/emco").Own(t.Context(), "all", "single", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	first.Close() // without releasing
	<-old.Lost()

	second := start(t, embedded.Options{Dir: dir, NoFsync: true})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	s := appcontext.New(second.Client(), "/emco")
	o, err := s.Own(ctx, "all", "single", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutPairs(ctx, old.Fence(), nil, []appcontext.PairKey{{Cluster: "p+c", Deployment: "7", App: "a"}}); !errs.Is(err, errs.Conflict) {
		t.Errorf("a write of the former life: %v, want conflict", err)
	}
	if err := o.Release(ctx); err != nil {
		t.Error(err)
	}
}

func TestADirectoryServesOneProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	start(t, embedded.Options{Dir: dir, NoFsync: true})
	began := time.Now()
	_, err := embedded.Start(t.Context(), embedded.Options{Dir: dir})
	if !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), dir) {
		t.Errorf("starting a second one: %v, want a conflict that names the directory", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s, want it soon", took)
	}
	for _, sub := range []string{"", "data", "lock"} {
		info, err := os.Stat(filepath.Join(dir, sub))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%q is open to others: %s", sub, info.Mode())
		}
	}
}

// A process that was killed keeps its locks for a moment when a child of it is on its way
// to another program; a restart at the same moment must not be refused.
func TestALockThatGoesIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{"directory": "lock", "log": "data/member/wal/*.wal"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			start(t, embedded.Options{Dir: dir, NoFsync: true}).Close()
			// Children of other tests may still have the lock of the server that was closed.
			lock, err := fileutil.LockFile(only(t, dir, file), os.O_RDWR, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			timer := time.AfterFunc(100*time.Millisecond, func() { _ = lock.Close() })
			defer timer.Stop()
			start(t, embedded.Options{Dir: dir, NoFsync: true})
		})
	}
}

// only returns the path of the only file below dir that matches.
func only(t *testing.T, dir, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(paths) != 1 {
		t.Fatalf("files %q: %q, %v; want one", pattern, paths, err)
	}
	return paths[0]
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	if _, err := embedded.Start(t.Context(), embedded.Options{}); !errs.Is(err, errs.Invalid) {
		t.Errorf("no directory: %v, want invalid", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Start(t.Context(), embedded.Options{Dir: file}); !errs.Is(err, errs.Internal) {
		t.Errorf("a file as directory: %v, want internal", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := embedded.Start(ended, embedded.Options{Dir: t.TempDir()}); !errs.Is(err, errs.Unavailable) {
		t.Errorf("a context that ended: %v, want unavailable", err)
	}
}

// spoiled returns the directory of a stopped server after changes to the files that
// match.
func spoiled(t *testing.T, files string, change func(content []byte)) string {
	t.Helper()
	dir := t.TempDir()
	server := start(t, embedded.Options{Dir: dir, NoFsync: true})
	if _, err := server.Client().Put(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	server.Close()
	paths, err := filepath.Glob(filepath.Join(dir, "data", "member", files))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files %q: %v", files, err)
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		change(content[:min(len(content), 16<<10)])
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func flipBits(content []byte) {
	for i := 40; i < len(content); i += 64 {
		content[i] ^= 1
	}
}

func overwrite(content []byte) {
	for i := range content {
		content[i] = "spoiled"[i%7]
	}
}

func TestSpoiledDataIsAnError(t *testing.T) {
	t.Parallel()
	dir := spoiled(t, "snap/db", overwrite)
	for range 2 {
		_, err := embedded.Start(t.Context(), embedded.Options{Dir: dir})
		if !errs.Is(err, errs.Internal) || !strings.Contains(err.Error(), dir) {
			t.Errorf("got %v, want an internal error that names the directory", err)
		}
	}
	// After these two etcd wants the process to end.
	for name, change := range map[string]func([]byte){"bits flipped": flipBits, "overwritten": overwrite} {
		dir := spoiled(t, "wal/*.wal", change)
		out, err := child(t, dir).CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		if want := "internal error: start etcd in " + dir + ": "; !strings.Contains(string(out), want) {
			t.Errorf("log %s: the output is %q, want %q", name, out, want)
		}
		if name == "bits flipped" && !strings.Contains(string(out), "crc mismatch") {
			t.Errorf("log %s: the output is %q, want etcd's own words in it", name, out)
		}
	}
}

func TestWhatWasAnsweredSurvivesAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := child(t, dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last, lines := "", bufio.NewScanner(out)
	for range 300 {
		if !lines.Scan() {
			t.Fatalf("the process ended after %q: %v", last, lines.Err())
		}
		last = lines.Text()
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // what it had answered before it died
		last = lines.Text()
	}
	cmd.Wait()

	server := start(t, embedded.Options{Dir: dir})
	h, err := appcontext.New(server.Client(), "/emco").Head(t.Context(), "7")
	if err != nil {
		t.Fatal(err)
	}
	if answered, err := strconv.ParseInt(last, 10, 64); err != nil || h.Seq < answered || h.Seq > answered+1 {
		t.Errorf("%d steps are there; %q were answered, %v", h.Seq, last, err)
	}
}

// childDir names the environment variable that makes the test binary a process that
// runs a server and steps a deployment, printing the number of each step.
const childDir = "EMBEDDED_TEST_DIR"

// childCounts makes that process count keys instead of writing.
const childCounts = "EMBEDDED_TEST_COUNTS"

func child(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	return cmd
}

// counting is a child that prints how many keys there are, and ends.
func counting(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := child(t, dir)
	cmd.Env = append(cmd.Env, childCounts+"=1")
	return cmd
}

func runChild(dir string) {
	ctx := context.Background()
	server, err := embedded.Start(ctx, embedded.Options{Dir: dir, Log: slog.New(slog.NewJSONHandler(os.Stderr, nil))})
	if err != nil {
		fmt.Println(errs.KindOf(err), "error:", err)
		return
	}
	if os.Getenv(childCounts) != "" {
		all, err := server.Client().Get(ctx, "", clientv3.WithPrefix(), clientv3.WithCountOnly())
		fmt.Println("holds", all.Count, "keys", err)
		return
	}
	s, h := appcontext.New(server.Client(), "/emco"), appcontext.Head{UID: "7"}
	for err == nil {
		if h, err = s.ChangeHead(ctx, h, h, make([]appcontext.HistoryEntry, 1), nil); err == nil {
			_, err = fmt.Println(h.Seq)
		}
	}
}

// Etcd's own tools do not use the lock of the directory.
func TestFilesInUseByAToolAreAConflict(t *testing.T) {
	t.Parallel()
	database := func(path string) (io.Closer, error) { return bbolt.Open(path, 0o600, nil) }
	log := func(path string) (io.Closer, error) { return fileutil.TryLockFile(path, os.O_RDWR, 0o600) }
	for file, open := range map[string]func(path string) (io.Closer, error){"snap/db": database, "wal/*.wal": log} {
		t.Run(filepath.Dir(file), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			start(t, embedded.Options{Dir: dir, NoFsync: true}).Close()
			path := only(t, dir, "data/member/"+file)
			tool, err := open(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = embedded.Start(t.Context(), embedded.Options{Dir: dir})
			if want := "another process has locked " + path; !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want a conflict with %q", err, want)
			}
			if err := tool.Close(); err != nil {
				t.Fatal(err)
			}
			start(t, embedded.Options{Dir: dir, NoFsync: true})
		})
	}
}

func TestNothingIsListenedOn(t *testing.T) {
	before := sockets(t)
	server := start(t, embedded.Options{Dir: t.TempDir(), NoFsync: true})
	if _, err := server.Client().Put(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	if after := sockets(t); after != before {
		t.Errorf("%d sockets are open, want %d as before", after, before)
	}
}

// sockets counts the open sockets of this process.
func sockets(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("this system does not list open files")
	}
	n := 0
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// When the quota is used up only reads are served and Ready returns the error. Freed room
// makes the store writable again without a restart.
func TestFullStoreRecovers(t *testing.T) {
	t.Parallel()
	server := start(t, embedded.Options{Dir: t.TempDir(), NoFsync: true, Quota: 4 << 20})
	s, ctx := appcontext.New(server.Client(), "/emco"), t.Context()
	key := func(i int) appcontext.PairKey {
		return appcontext.PairKey{Cluster: "p+c", Deployment: "7", App: fmt.Sprint(i)}
	}
	var keys []appcontext.PairKey
	var err error
	deadline := time.Now().Add(20 * time.Second) // etcd looks at the size when it writes its batch to disk
	for i := 0; err == nil && time.Now().Before(deadline); i++ {
		keys = append(keys, key(i%100))
		err = s.PutPairs(ctx, appcontext.Fence{}, []appcontext.Pair{{Key: key(i % 100), Error: strings.Repeat("x", 200<<10)}}, nil)
	}
	if !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "etcd is full") {
		t.Fatalf("filling it up ends with %v, want that it is full", err)
	}
	if err := s.Ready(ctx); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "NOSPACE") {
		t.Errorf("Ready = %v, want the alarm", err)
	}
	if got, err := s.PairsAt(ctx, keys[:1]); err != nil || len(got) != 1 {
		t.Errorf("reading when full: %d pairs, %v; want 1", len(got), err)
	}
	if err := s.PutPairs(ctx, appcontext.Fence{}, nil, keys); err != nil {
		t.Fatalf("removing when full: %v", err)
	}
	if err := server.Reclaim(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(ctx); err != nil {
		t.Errorf("Ready = %v after room was made", err)
	}
	if err := s.PutPairs(ctx, appcontext.Fence{}, []appcontext.Pair{{Key: key(1)}}, nil); err != nil {
		t.Errorf("writing after room was made: %v", err)
	}
}

// A server that need not outlive its machine allocates no disk space for a full disk.
func TestAServerWithoutFsyncKeepsNoReserve(t *testing.T) {
	t.Parallel()
	for _, noFsync := range []bool{false, true} {
		dir := t.TempDir()
		start(t, embedded.Options{Dir: dir, NoFsync: noFsync})
		_, err := os.Stat(filepath.Join(dir, "ballast"))
		if kept := err == nil; kept == noFsync {
			t.Errorf("NoFsync is %v, and a reserve is kept: %v (%v)", noFsync, kept, err)
		}
	}
}
