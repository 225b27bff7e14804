package embedded

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

// A disk with too little space for the reserve is logged once, and hides no other failure.
func TestAMissingReserveIsLogged(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux allocates blocks of a range")
	}
	var text bytes.Buffer
	dir := t.TempDir()
	r := newReserve(dir, dir, slog.New(slog.NewTextHandler(&text, nil)))
	if err := os.MkdirAll(filepath.Dir(r.database), 0o700); err != nil {
		t.Fatal(err)
	}
	sparse, err := os.Create(r.database)
	if err != nil {
		t.Fatal(err)
	}
	if err := sparse.Truncate(8 << 40); err != nil { // more than the disk has, without blocks
		t.Fatal(err)
	}
	if err := sparse.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(r.ballast, 0o700); err != nil { // no file, so no blocks can be allocated
		t.Fatal(err)
	}
	want := func(reserve, failures int) {
		t.Helper()
		if got := strings.Count(text.String(), "no whole reserve yet"); got != reserve {
			t.Errorf("the missing reserve is logged %d times, want %d:\n%s", got, reserve, &text)
		}
		if got := strings.Count(text.String(), "is a directory"); got != failures {
			t.Errorf("the failure of the ballast is logged %d times, want %d:\n%s", got, failures, &text)
		}
	}
	for range 3 {
		r.keep()
		want(1, 1)
	}
	if err := os.Remove(r.ballast); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(r.database, 0); err != nil {
		t.Fatal(err)
	}
	r.keep()
	want(1, 1)
	if info, err := os.Stat(r.ballast); err != nil || info.Size() != spareSnapshots {
		t.Errorf("the ballast: %v %v, want %d bytes", info, err, spareSnapshots)
	}
}

// etcd writes the line that the reserve waits for. A later version may write another one.
func TestTheSnapshotOfTheLogIsSeen(t *testing.T) {
	t.Parallel()
	c := config(Options{Dir: t.TempDir(), NoFsync: true})
	var seen atomic.Int64
	c.ZapLoggerBuilder = loggerBuilder(nil, func() { seen.Add(1) })
	etcd, err := start(c)
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	<-etcd.Server.ReadyNotify()
	client := v3client.New(etcd.Server)
	defer client.Close()
	for n := range c.SnapshotCount + 10 {
		if _, err := client.Put(t.Context(), "key", fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	if seen.Load() == 0 {
		t.Errorf("%d writes, and no line of etcd's log announced a snapshot", c.SnapshotCount+10)
	}
}
