package childproc

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killAfter is how many seconds of processor time a child has between SIGXCPU and SIGKILL.
const killAfter = 2

// set sets the limits of a process that answers so many questions. RLIMIT_DATA counts memory in
// use; RLIMIT_AS would count what Go's run time only reserves. The limit on processor time also
// ends a child whose parent is gone.
func (l Limits) set(pid, questions int) error {
	for _, r := range []struct {
		resource  int
		soft, max uint64
	}{
		{unix.RLIMIT_DATA, l.Memory, l.Memory},
		{unix.RLIMIT_CPU, l.seconds(), uint64(questions) * (l.seconds() + killAfter)}, // SIGXCPU, then SIGKILL
		{unix.RLIMIT_CORE, 0, 0},
		{unix.RLIMIT_FSIZE, l.File, l.File},
	} {
		if err := limit(pid, r.resource, r.soft, r.max); err != nil {
			return err
		}
	}
	return nil
}

// renew gives a process, which may have answered questions, the processor time for the next one.
func (l Limits) renew(pid int) error {
	var used unix.Timespec
	var now unix.Rlimit
	err := unix.ClockGettime(processorClock(pid), &used)
	if err == nil {
		err = unix.Prlimit(pid, unix.RLIMIT_CPU, nil, &now)
	}
	switch err {
	case nil:
	case unix.ESRCH, unix.EINVAL: // it has ended; Wait returns how
		return nil
	default:
		return fmt.Errorf("read the processor time of the child: %w", err)
	}
	return limit(pid, unix.RLIMIT_CPU, min(uint64(used.Sec)+1+l.seconds(), now.Max), now.Max)
}

// processorClock is the clock of the processor time of a process; see clock_getcpuclockid(3).
func processorClock(pid int) int32 { return ^int32(pid)<<3 | 2 }

func limit(pid, resource int, soft, most uint64) error {
	err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: soft, Max: most}, nil)
	if err == unix.ESRCH { // it has ended; Wait returns how
		return nil
	}
	if err != nil {
		return fmt.Errorf("limit the child: %w", err)
	}
	return nil
}

// seconds returns the limit on the processor time of all threads, in seconds.
func (l Limits) seconds() uint64 {
	if l.Work > 0 {
		return uint64((l.Work + time.Second - 1) / time.Second)
	}
	return 2 * (uint64(l.Time/time.Second) + 2)
}

// spentCode is the exit code of a child that ends on SIGXCPU, as a shell would report it.
const spentCode = 128 + int(unix.SIGXCPU)

// workPoll is how often Heed checks the processor time.
const workPoll = 5 * time.Millisecond

// Heed makes this process, a child in Go, end when it has used up its processor time: work from
// now on, if that is more than 0, or the whole seconds that the kernel allows. Go's run time
// ignores SIGXCPU, so the kernel would kill the process and the parent would not know why. After
// stop, the processor time no longer ends the process.
func Heed(work time.Duration) (stop func()) {
	spent, ended, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	before := processorTime()
	signal.Notify(spent, unix.SIGXCPU)
	go func() {
		defer close(done)
		check := time.NewTicker(workPoll)
		defer check.Stop()
		for {
			select {
			case <-spent:
				os.Exit(spentCode)
			case <-check.C:
				if work > 0 && processorTime()-before >= work {
					os.Exit(spentCode)
				}
			case <-ended:
				return
			}
		}
	}()
	return func() { signal.Stop(spent); close(ended); <-done }
}

// processorTime returns the processor time of all threads of this process.
func processorTime() time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return 0 // documented not to fail; the kernel's limit remains
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// spent reports whether a child ended because it used up its processor time.
func (l Limits) spent(ended *os.ProcessState) bool {
	if l.Work == 0 || ended == nil {
		return false
	}
	status, ok := ended.Sys().(syscall.WaitStatus)
	return ok && (status.Signaled() && status.Signal() == unix.SIGXCPU || status.Exited() && status.ExitStatus() == spentCode)
}

// setProcessGroup gives a process its own process group, so that its children end with it.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// tie has the kernel kill a process when this one dies. The kernel watches the thread that starts the process, and Go
// ends threads that a goroutine was locked to: until release, no other goroutine gets this thread.
func tie(cmd *exec.Cmd) (release func()) {
	runtime.LockOSThread()
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return runtime.UnlockOSThread
}
