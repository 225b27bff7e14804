package peers

import (
	"os"
	"os/exec"
	"testing"
	"time"
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
