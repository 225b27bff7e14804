package embedded_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/disktest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
)

// childFull makes the child write until the parent has filled the disk, then do what is not refused on
// a full disk.
const childFull = "EMBEDDED_TEST_FULL"

// The child does each of it fullRounds times in each part: etcd writes a snapshot at least. Between
// parts the parent fills the disk again.
const (
	fullParts  = 4
	fullRounds = 100
)

// Deletions, leases, a compaction and the writes that were accepted a moment before the disk was full do
// not end the process, even if another program takes what the reserve frees.
func TestF64AFullDiskDoesNotEndEtcd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk := disktest.New(t, dir, 320)
	if disk == nil {
		t.Skip("this machine does not allow to mount a tmpfs, or has no nsenter")
	}
	run := func(command string) string {
		t.Helper()
		last, err := disk.Run(command)
		if err != nil {
			t.Fatal(err)
		}
		return last
	}
	with := disk.With()
	cmd := exec.CommandContext(t.Context(), with[0], append(with[1:], os.Args[0])...)
	cmd.Env = append(os.Environ(), childDir+"="+dir+"/etcd", childFull+"=1")
	var log bytes.Buffer
	cmd.Stderr = &log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	says := func(want string) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the process ended: %v\n%s", cmd.Wait(), log.String())
		}
		if lines.Text() != want {
			t.Fatalf("the process says %q, want %q", lines.Text(), want)
		}
	}
	next := func() {
		t.Helper()
		if _, err := fmt.Fprintln(in); err != nil {
			t.Fatal(err)
		}
	}
	says("written")
	for range fullParts + 1 {
		run("cat /dev/zero >>" + dir + "/other 2>/dev/null")
		if free := run("df -k --output=avail " + dir); strings.TrimSpace(free) != "0" {
			t.Fatalf("%s KiB are free, want none", free)
		}
		next()
		says("went on")
	}
	run("rm " + dir + "/other")
	next()
	says("done")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
}

// runFull is the child.
func runFull(dir string) error {
	ctx, parent := context.Background(), bufio.NewScanner(os.Stdin)
	server, err := embedded.Start(ctx, embedded.Options{Dir: dir, Log: slog.New(slog.NewJSONHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	c, value := server.Client(), strings.Repeat("x", 10<<10)
	put := func(n int) {
		if err == nil {
			_, err = c.Put(ctx, fmt.Sprint("key", n), value)
		}
	}
	for n := range fullParts * fullRounds {
		put(n)
	}
	reached := func(what string) {
		fmt.Println(what)
		if !parent.Scan() {
			err = errors.Join(err, errors.New("the parent ended"), parent.Err())
		}
	}
	reached("written")
	for n := range fullRounds {
		put(fullParts*fullRounds + n)
	}
	for part := range fullParts {
		reached("went on")
		for n := range fullRounds {
			var lease *clientv3.LeaseGrantResponse
			if err == nil {
				lease, err = c.Grant(ctx, 3600)
			}
			if err == nil {
				_, err = c.Revoke(ctx, lease.ID)
			}
			if err == nil {
				_, err = c.Delete(ctx, fmt.Sprint("key", part*fullRounds+n))
			}
		}
		if err == nil {
			var now *clientv3.GetResponse
			if now, err = c.Get(ctx, "key", clientv3.WithCountOnly()); err == nil {
				_, err = c.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
			}
		}
		if err != nil {
			return err
		}
	}
	reached("went on")
	put(0)
	all, errGet := c.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err = errors.Join(err, errGet); err == nil && all.Count != fullRounds+1 {
		err = fmt.Errorf("there are %d keys", all.Count)
	}
	if err = errors.Join(err, server.Close()); err == nil {
		fmt.Println("done")
	}
	return err
}
