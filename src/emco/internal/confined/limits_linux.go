package confined

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// set sets the limits of a process. RLIMIT_DATA counts the memory that is in use, whereas
// RLIMIT_AS would count what Go's run time reserves without using it. The limit on
// processor time ends a child whose parent is gone.
func (l Limits) set(pid int) error {
	for _, r := range []struct {
		resource int
		most     uint64
	}{
		{unix.RLIMIT_DATA, l.Memory},
		{unix.RLIMIT_CPU, l.seconds()},
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_FSIZE, 0},
	} {
		err := unix.Prlimit(pid, r.resource, &unix.Rlimit{Cur: r.most, Max: r.most}, nil)
		if err == unix.ESRCH { // it has ended already, which Wait tells
			return nil
		}
		if err != nil {
			return fmt.Errorf("limit the child: %w", err)
		}
	}
	return nil
}

// seconds are how long all threads of a child may work, together.
func (l Limits) seconds() uint64 {
	if l.Work > 0 {
		return uint64((l.Work + time.Second - 1) / time.Second)
	}
	return 2 * (uint64(l.Time/time.Second) + 2)
}

// spent says whether a child was ended because it had worked for as long as it may.
func (l Limits) spent(ended *os.ProcessState) bool {
	if l.Work == 0 || ended == nil {
		return false
	}
	status, ok := ended.Sys().(syscall.WaitStatus)
	const tick = 20 * time.Millisecond // what the kernel counts in, and more
	return ok && status.Signaled() && ended.UserTime()+ended.SystemTime() >= time.Duration(l.seconds())*time.Second-tick
}

// alone gives a process a group of its own, so that what it has started is ended with it
// when it is late.
func alone(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
