package childproc_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/emco-orchestrator/emco/src/emco/internal/childproc"
)

const parentEnv = "CONFINED_TEST_PIPE" // set in the process that a test kills

// tied is a tied child that writes its process id to a pipe.
func tied(pipe, then string) childproc.Child {
	c := shell("echo $$ >$PIPE; " + then)
	c.Tied, c.Env, c.Limits.Time = true, []string{"PIPE=" + pipe}, 10*time.Minute
	return c
}

func newPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTiedChildrenDieWithTheirParent(t *testing.T) {
	if pipe := os.Getenv(parentEnv); pipe != "" {
		_, err := tied(pipe, "exec sleep 600").Ask(t.Context(), nil)
		t.Fatal(err)
	}
	t.Parallel()
	pipe := newPipe(t)
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTiedChildrenDieWithTheirParent$")
	parent.Env = append(os.Environ(), parentEnv+"="+pipe)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(pipe)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	child, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child)
	_ = parent.Process.Kill()
	_ = parent.Wait()
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(child), Events: unix.POLLIN}}, 30_000); n != 1 || err != nil {
		t.Errorf("the child goes on after its parent was killed: %d, %v", n, err)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// Go ends a thread with the goroutine that is locked to it. It must not be the thread that the kernel watches.
func TestTiedChildrenOutliveOtherThreads(t *testing.T) {
	t.Parallel()
	pipe, more := newPipe(t), newPipe(t)
	c := tied(pipe, "read go <$MORE; echo well")
	c.Env = append(c.Env, "MORE="+more)
	var answer childproc.Answer
	var err error
	var asked sync.WaitGroup
	asked.Go(func() { answer, err = c.Ask(t.Context(), nil) })
	if _, err := os.ReadFile(pipe); err != nil {
		t.Fatal(err)
	}
	const threads = 64
	var locked, ended sync.WaitGroup
	locked.Add(threads)
	for range threads {
		ended.Go(func() {
			runtime.LockOSThread()
			locked.Done()
			locked.Wait()
		})
	}
	ended.Wait()
	for {
		left, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", os.Getpid()))
		if err != nil {
			t.Fatal(err)
		}
		if len(left) < threads {
			break
		}
		runtime.Gosched()
	}
	line, openErr := os.OpenFile(more, os.O_RDWR, 0) // it does not wait for a child that has ended
	if openErr != nil {
		t.Fatal(openErr)
	}
	defer line.Close()
	if _, err := line.WriteString("on\n"); err != nil {
		t.Fatal(err)
	}
	asked.Wait()
	if err != nil || string(answer.Text) != "well\n" {
		t.Errorf("the child ended with a thread of its parent: %q, %v", answer.Text, err)
	}
}
