// Package process runs the servers of a bed as child processes that cannot
// outlive it.
//
//	Start ──> Running ──(Stop: SIGTERM, then SIGKILL)──> Exited
//	             └────────────(by itself)──────────────────┘
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/internal/poll"
)

// grace is the time between SIGTERM and SIGKILL.
const grace = 10 * time.Second

// Spec describes a process.
type Spec struct {
	Name string   // its name in messages
	Path string   // the program
	Args []string // without the program's name
	Env  []string // in addition to this process's environment
	Dir  string   // working folder; the log is Name.log in it
}

// Process is a running child. Its methods are safe for concurrent use.
type Process struct {
	spec Spec
	pid  int
	done chan struct{} // closed after the child was waited for
	err  error         // its result; read it after done
}

// Start runs a program in its own process group. The kernel kills it when this process ends, in any
// way. The caller must call Stop.
func Start(s Spec) (*Process, error) {
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(s.Path, s.Args...)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &Process{spec: s, done: make(chan struct{})}
	started := make(chan error)
	go p.run(cmd, started)
	err = <-started
	log.Close()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	return p, nil
}

// run owns the child. It keeps its thread, because for the kernel the end of the thread that started a
// child is the death of its parent.
func (p *Process) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	p.pid = cmd.Process.Pid
	started <- nil
	p.err = cmd.Wait()
}

// PID returns the process id.
func (p *Process) PID() int { return p.pid }

// Name returns the name of the spec.
func (p *Process) Name() string { return p.spec.Name }

// Exited returns nil while the process runs, and afterwards an error with its result and the end of its
// log.
func (p *Process) Exited() error {
	select {
	case <-p.done:
		return p.failure(fmt.Errorf("ended without a signal (%s)", state(p.err)))
	default:
		return nil
	}
}

// Ready waits until check returns nil. When ctx or the process ends first, the error contains the end
// of the process's log.
func (p *Process) Ready(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := poll.Until(ctx, 50*time.Millisecond, func(ctx context.Context) error {
		if p.Exited() != nil {
			cancel()
			return nil
		}
		return check(ctx)
	})
	if exited := p.Exited(); exited != nil {
		return exited
	}
	if err != nil {
		return p.failure(fmt.Errorf("not ready: %w", err))
	}
	return nil
}

// Stop ends the process and its group: SIGTERM first, SIGKILL if it has not ended after a while. It
// returns when the process is gone; a second call does nothing.
func (p *Process) Stop() {
	p.signal(syscall.SIGTERM)
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-p.done:
	case <-late.C:
		p.signal(syscall.SIGKILL)
		<-p.done
	}
}

// Kill ends the process and its group as kill -9 does, and returns when the process is gone.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal sends to the group only before the child is waited for, because its id may belong to another
// process afterwards.
func (p *Process) signal(s syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.pid, s)
	}
}

func (p *Process) failure(err error) error {
	return &Failure{Name: p.spec.Name, Log: Tail(p.spec.logPath(), 15), Path: p.spec.logPath(), Err: err}
}

func (s Spec) logPath() string { return filepath.Join(s.Dir, s.Name+".log") }

// Failure is the error of a process that ended or did not become ready.
type Failure struct {
	Name string // the process
	Log  string // the end of its log
	Path string // the whole log
	Err  error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%s %v; the end of %s:\n%s", f.Name, f.Err, f.Path, f.Log)
}

func (f *Failure) Unwrap() error { return f.Err }

// StopAll stops processes, the last started first.
func StopAll(ps []*Process) {
	for i := len(ps) - 1; i >= 0; i-- {
		ps[i].Stop()
	}
}

// FirstExited returns the error of the first process that ended, nil when all run.
func FirstExited(ps []*Process) error {
	for _, p := range ps {
		if err := p.Exited(); err != nil {
			return err
		}
	}
	return nil
}

func state(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ProcessState.String()
	}
	if err != nil {
		return err.Error()
	}
	return "exit status 0"
}
