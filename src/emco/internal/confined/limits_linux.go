package confined

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// set sets the limits of a process. RLIMIT_DATA counts the memory that is in use, whereas
// RLIMIT_AS would count what Go's run time reserves without using it. The limit on
// processor time ends a child whose parent is gone.
func (l Limits) set(pid int) error {
	for _, r := range []struct {
		resource  int
		soft, max uint64
	}{
		{unix.RLIMIT_DATA, l.Memory, l.Memory},
		{unix.RLIMIT_CPU, l.seconds(), l.seconds() + 2}, // SIGXCPU, and SIGKILL for those that do not heed it
		{unix.RLIMIT_CORE, 0, 0},
		{unix.RLIMIT_FSIZE, 0, 0},
	} {
		err := unix.Prlimit(pid, r.resource, &unix.Rlimit{Cur: r.soft, Max: r.max}, nil)
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

// told is how a child ends that heeds its limit, as shells say it of others.
const told = 128 + int(unix.SIGXCPU)

// Heed has this process, if it is a child in Go, end when it has used up its processor
// time. Go's run time takes no notice of the kernel's word before the process is killed,
// and then nobody knows why it was. The function that is returned ends that.
func Heed() (stop func()) {
	spent := make(chan os.Signal, 1)
	signal.Notify(spent, unix.SIGXCPU)
	go func() {
		if _, ok := <-spent; ok {
			os.Exit(told)
		}
	}()
	return func() { signal.Stop(spent); close(spent) }
}

// spent says whether a child was ended because it had worked for as long as it may.
func (l Limits) spent(ended *os.ProcessState) bool {
	if l.Work == 0 || ended == nil {
		return false
	}
	status, ok := ended.Sys().(syscall.WaitStatus)
	return ok && (status.Signaled() && status.Signal() == unix.SIGXCPU || status.Exited() && status.ExitStatus() == told)
}

// alone gives a process a group of its own, so that what it has started is ended with it
// when it is late.
func alone(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
