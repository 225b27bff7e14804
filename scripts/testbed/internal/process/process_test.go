package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/internal/poll"
)

func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(Spec{Name: "sh", Path: "/bin/sh", Args: []string{"-c", script}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func TestStopEndsTheWholeGroupAndMayBeRepeated(t *testing.T) {
	p := shell(t, "sleep 60 & sleep 60")
	p.Stop()
	p.Stop()
	if err := syscall.Kill(-p.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		// The sleeping grandchild may be a zombie for a moment.
		gone := poll.Until(t.Context(), 10*time.Millisecond, func(context.Context) error {
			if err := syscall.Kill(-p.PID(), 0); errors.Is(err, syscall.ESRCH) {
				return nil
			}
			return errors.New("still there")
		})
		if gone != nil {
			t.Errorf("group %d after Stop: %v", p.PID(), gone)
		}
	}
}

func TestReadyShowsTheLogOfAProcessThatEnded(t *testing.T) {
	p := shell(t, "echo cannot open the door; exit 3")
	err := p.Ready(t.Context(), func(context.Context) error { return errors.New("no answer") })
	if err == nil || !strings.Contains(err.Error(), "cannot open the door") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("Ready: %v, want the log and the exit status", err)
	}
}

func TestReadyShowsTheLogWhenTimeIsUp(t *testing.T) {
	p := shell(t, "echo waiting for etcd; sleep 60")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := p.Ready(ctx, func(context.Context) error { return errors.New("no answer") })
	for _, want := range []string{"waiting for etcd", "no answer"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Ready: %v, want %q in it", err, want)
		}
	}
}

func TestRetryPicksAgainOnlyWhenThePortWasTaken(t *testing.T) {
	taken := fmt.Errorf("start c1: %w", &Failure{Log: "listen tcp 127.0.0.1:1: bind: address already in use"})
	other := &Failure{Log: "unknown flag"}
	for _, c := range []struct {
		name   string
		errs   []error
		starts int
		want   error
	}{
		{"it works the first time", []error{nil}, 1, nil},
		{"the port is free the second time", []error{taken, nil}, 2, nil},
		{"another failure is final", []error{other}, 1, other},
		{"it gives up at the end", []error{taken, taken, taken, taken}, 4, taken},
	} {
		starts := 0
		got := Retry(func() error { starts++; return c.errs[starts-1] })
		if got != c.want || starts != c.starts {
			t.Errorf("%s: Retry = %v after %d starts, want %v after %d", c.name, got, starts, c.want, c.starts)
		}
	}
}

func TestTailGivesTheLastLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("a\nb\nc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Tail(path, 2); got != "b\nc" {
		t.Errorf("Tail = %q, want %q", got, "b\nc")
	}
}

// A killed parent cannot clean up: the kernel must.
func TestAChildDiesWithItsKilledParent(t *testing.T) {
	if dir := os.Getenv("TESTBED_CHILD_DIR"); dir != "" {
		p, err := Start(Spec{Name: "sleep", Path: "/bin/sleep", Args: []string{"60"}, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "pid"), []byte(strconv.Itoa(p.PID())), 0o600); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	dir := t.TempDir()
	parent := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	parent.Env = append(os.Environ(), "TESTBED_CHILD_DIR="+dir)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	pid := 0
	err := poll.Until(ctx, 20*time.Millisecond, func(context.Context) error {
		data, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil {
			return err
		}
		pid, err = strconv.Atoi(string(data))
		return err
	})
	_ = parent.Process.Kill()
	_ = parent.Wait()
	if err != nil {
		t.Fatal(err)
	}
	err = poll.Until(ctx, 20*time.Millisecond, func(context.Context) error { return gone(pid) })
	if err != nil {
		t.Errorf("child %d outlived its parent: %v", pid, err)
	}
}

// gone counts a zombie as gone: its new parent may be slow to wait for it.
func gone(pid int) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil && !strings.Contains(string(stat), ") Z ") {
		return errors.New("still running")
	}
	return nil
}
