package peers

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/scripts/e2e/program"
)

// A child that works counts before it has ended, and still when it has.
func TestChildrenCountWhileTheyRun(t *testing.T) {
	before := CPUOf(os.Getpid())
	child := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	const least = 200 * time.Millisecond
	for processTime(child.Process.Pid) < least { // the test's time limit ends this
		time.Sleep(time.Millisecond)
	}
	if got := CPUOf(os.Getpid()) - before; got < least {
		t.Errorf("while the child runs, %s count", got)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	if got := CPUOf(os.Getpid()) - before; got < least {
		t.Errorf("when the child has ended, %s count", got)
	}
}

// The memory of a process contains that of its children.
func TestMemoryContainsChildren(t *testing.T) {
	child := exec.CommandContext(t.Context(), "sh", "-c", "sleep 60 & echo started; wait")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-child.Process.Pid, syscall.SIGKILL); _ = child.Wait() }()
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	alone, err := program.MemoryOf(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := ResidentOf(child.Process.Pid); err != nil || all <= alone.Resident {
		t.Errorf("the shell has %d bytes, with its child %d, %v; want more", alone.Resident, all, err)
	}
}
