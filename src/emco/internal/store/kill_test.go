package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// writerDir makes the test binary a process that writes into the folder it names
// until it is killed.
const writerDir = "EMCO_TEST_WRITER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		fmt.Fprintln(os.Stderr, writeForever(context.Background(), dir))
		os.Exit(1)
	}
	if code, asked := etcdtest.Main(os.Args); asked {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// endpointsFile names the etcd whose documents belong to the folder; without it they are in SQLite.
const endpointsFile = "etcd"

// openDir opens what a process keeps in a folder, or in the etcd that the folder names.
func openDir(dir string) (*store.DB, io.Closer, error) {
	k, err := seal.LoadOrCreateKey(filepath.Join(dir, "key"))
	if err != nil {
		return nil, nil, err
	}
	place := all.Place{File: filepath.Join(dir, "docs.db"), Packages: filepath.Join(dir, "blobs")}
	endpoints, err := os.ReadFile(filepath.Join(dir, endpointsFile))
	if err != nil {
		return openPlace("sqlite", place, k)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Fields(string(endpoints)), Logger: zap.NewNop()})
	if err != nil {
		return nil, nil, err
	}
	place.Etcd = etcdkv.New(client, "/emco/", etcdkv.Options{})
	return openPlace("etcd", place, k)
}

func openPlace(driver string, p all.Place, k seal.Key) (*store.DB, io.Closer, error) {
	d, b, err := all.Drivers()[driver](context.Background(), p)
	if err != nil {
		return nil, nil, err
	}
	return store.New(d, b, seal.New(k)), d, nil
}

// writeForever acknowledges on standard output each document that was written, by
// its key; the content and the secret are the key as well.
func writeForever(ctx context.Context, dir string) error {
	db, _, err := openDir(dir)
	if err != nil {
		return err
	}
	root := store.Key(fmt.Sprintf("runs/%d", os.Getpid()))
	if _, err := db.Create(ctx, store.Write{Key: root}); err != nil {
		return err
	}
	for i := 0; ; i++ {
		k := store.Key(fmt.Sprintf("%s/docs/%04d", root, i))
		digest, size, err := db.PutBlob(ctx, strings.NewReader(string(k)), 1<<10)
		if err != nil {
			return err
		}
		w := store.Write{Key: k, Parent: root, Secret: []byte(k), Blobs: []store.Blob{{Name: "file", Digest: digest, Size: size}}}
		if _, err := db.Create(ctx, w); err != nil {
			return err
		}
		w.Body = []byte("replaced")
		if _, err := db.Replace(ctx, w, 1); err != nil {
			return err
		}
		fmt.Println(k)
	}
}

func TestWhatWasAcknowledgedSurvivesAKill(t *testing.T) {
	t.Parallel()
	killWriters(t, t.TempDir())
}

func TestWhatWasAcknowledgedSurvivesAKillOnEtcd(t *testing.T) {
	t.Parallel()
	dir, etcd := t.TempDir(), etcdtest.Start(t, 1, etcdtest.Options{})
	if err := os.WriteFile(filepath.Join(dir, endpointsFile), []byte(strings.Join(etcd.Endpoints(), " ")), 0o600); err != nil {
		t.Fatal(err)
	}
	killWriters(t, dir)
}

// killWriters kills writers, and wants all that they acknowledged.
func killWriters(t *testing.T, dir string) {
	t.Helper()
	var acknowledged []store.Key
	for round := range 4 {
		keys := killedWriter(t, dir, 5+7*round)
		acknowledged = append(acknowledged, keys...)
		db, closer, err := openDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		db.SetLease(20 * time.Millisecond)
		if err := db.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, k := range acknowledged {
			if err := intact(t.Context(), db, k); err != nil {
				t.Errorf("%s was acknowledged: %v", k, err)
			}
		}
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killedWriter starts a writer, kills it once it acknowledged n documents, and
// returns all that it acknowledged.
func killedWriter(t *testing.T, dir string, n int) []store.Key {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), writerDir+"="+dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var keys []store.Key
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		keys = append(keys, store.Key(strings.TrimSpace(line)))
		if len(keys) == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || len(keys) < n {
		t.Fatalf("the writer ended without a kill after %d documents: %v\n%s", len(keys), err, stderr.String())
	}
	return keys
}

// intact checks a document that was acknowledged, its secret and its content.
func intact(ctx context.Context, db *store.DB, k store.Key) error {
	d, err := db.Get(ctx, k)
	if err != nil {
		return err
	}
	secret, err := db.Reveal(ctx, d)
	if err != nil {
		return err
	}
	r, err := db.OpenBlob(ctx, d.Blobs[0].Digest)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	if string(d.Body) != "replaced" || string(secret) != string(k) || string(text) != string(k) {
		return fmt.Errorf("body %q, content %q, secret as expected: %t", d.Body, text, string(secret) == string(k))
	}
	return nil
}
