// Package program runs the built programs: emco as a child that tests can stop, kill and restart on the
// same data, and emcoctl for one command at a time. It also reads their memory, metrics and profiles, and waits for conditions.
package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// The time limits for emco's start, and for its end after SIGTERM.
const (
	startLimit = 2 * time.Minute
	stopLimit  = 2 * time.Minute
	pollPause  = 20 * time.Millisecond
)

// Options configure a run of emco.
type Options struct {
	Bin  string   // folder with the built programs
	Dir  string   // folder of the data and the log; the same after a restart
	Args []string // further flags
	Path string   // of the program; empty: emco in Bin
	With []string // a command that becomes emco, such as nsenter with its arguments; usually none
	// Token is the credential of Get and Metrics; empty without identity.
	Token string
}

// Emco is a running emco. It appends its log to those of earlier runs on the same data.
type Emco struct {
	options  Options
	cmd      *exec.Cmd
	logStart int64 // where the log of this run begins
	address  string
	done     chan struct{} // closed after the child was waited for
	err      error         // its result; read it after done
}

// Start runs emco on a free port of 127.0.0.1 and waits until it is ready. The caller
// ends it. The kernel kills it when this process dies.
func Start(ctx context.Context, o Options) (*Emco, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(LogPath(o.Dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	old, err := log.Seek(0, 2)
	if err != nil {
		return nil, err
	}
	e := &Emco{options: o, logStart: old, done: make(chan struct{})}
	if o.Path == "" {
		o.Path = filepath.Join(o.Bin, "emco")
	}
	command := slices.Concat(o.With, []string{o.Path, "-data", filepath.Join(o.Dir, "data"), "-http.address", "127.0.0.1:0", "-grpc.address", "127.0.0.1:0"}, o.Args)
	e.cmd = exec.Command(command[0], command[1:]...)
	e.cmd.Stdout, e.cmd.Stderr = log, log
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := e.launch(); err != nil {
		return nil, fmt.Errorf("start emco (was it built? make build): %w", err)
	}
	if err := e.ready(ctx); err != nil {
		e.Kill()
		return nil, fmt.Errorf("%w; the end of its log:\n%s", err, Tail(o.Dir, 20))
	}
	return e, nil
}

// launch starts the child on a separate thread, which the kernel treats as its parent.
func (e *Emco) launch() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(e.done)
		if err := e.cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		e.err = e.cmd.Wait()
	}()
	return <-started
}

// ready waits for the log line with the address, then for /readyz.
func (e *Emco) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return Poll(ctx, pollPause, func() error {
		select {
		case <-e.done:
			cancel()
			return fmt.Errorf("emco ended (%w)", e.err)
		default:
		}
		if e.address == "" {
			e.address = logged(LogPath(e.options.Dir), e.logStart, "emco serves")
		}
		if e.address == "" {
			return errors.New("emco does not log its address")
		}
		_, err := e.Get(ctx, "/readyz")
		return err
	})
}

// logged finds the address in a line of a log. Lines before the given offset belong to an earlier start.
func logged(path string, from int64, line string) string {
	text, err := os.ReadFile(path)
	if err != nil || int64(len(text)) < from {
		return ""
	}
	for text := range bytes.Lines(text[from:]) {
		var entry struct{ Msg, Address string }
		if json.Unmarshal(text, &entry) == nil && entry.Msg == line {
			return entry.Address
		}
	}
	return ""
}

// URL returns the address of the API.
func (e *Emco) URL() string { return "http://" + e.address }

// PID returns the process id.
func (e *Emco) PID() int { return e.cmd.Process.Pid }

// Kill ends emco as kill -9 does, immediately and without a warning.
func (e *Emco) Kill() {
	e.signal(syscall.SIGKILL)
	<-e.done
}

// Pause stops emco for a while, as a machine does that is too busy.
func (e *Emco) Pause(ctx context.Context, d time.Duration) {
	e.signal(syscall.SIGSTOP)
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	e.signal(syscall.SIGCONT)
}

// Stop ends emco by SIGTERM. It returns an error if emco did not end in time, or not with exit code 0.
func (e *Emco) Stop() error {
	e.signal(syscall.SIGTERM)
	late := time.NewTimer(stopLimit)
	defer late.Stop()
	select {
	case <-e.done:
		if e.err != nil {
			return fmt.Errorf("emco ended with %w", e.err)
		}
		return nil
	case <-late.C:
		e.Kill()
		return fmt.Errorf("emco did not end within %s of SIGTERM", stopLimit)
	}
}

// Exited returns nil while emco runs, otherwise its result.
func (e *Emco) Exited() error {
	select {
	case <-e.done:
		return fmt.Errorf("emco ended without a signal (%v)", e.err)
	default:
		return nil
	}
}

// signal reaches the child and its children, unless the child was waited for.
func (e *Emco) signal(s syscall.Signal) {
	select {
	case <-e.done:
	default:
		_ = syscall.Kill(-e.PID(), s) // it may end between the check and the signal
	}
}

// Get reads a path of emco and returns the body; an answer that is not 200 is an error.
func (e *Emco) Get(ctx context.Context, path string) ([]byte, error) {
	return get(ctx, e.URL()+path, e.options.Token)
}

func get(ctx context.Context, url, token string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(res.Body); err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s: %s", url, res.Status, bytes.TrimSpace(body.Bytes()))
	}
	return body.Bytes(), nil
}

// Poll retries until there is no error. When ctx ends first, it returns the last error.
func Poll(ctx context.Context, pause time.Duration, try func() error) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}
