// Package childproc runs child processes that answer questions within limits: one (Ask), or several
// one after the other (Start). FindPrograms reads the settings that list the allowed programs, as name=/path.
//
//	parent ── question ──► stdin  ┐ child: has only the given environment, limited
//	       ◄── answer ─── stdout ┘ memory and processor time; killed if late
package childproc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os/exec"
	"sync"
	"time"
)

const (
	grace     = time.Second // after a child ends, until its pipes are closed
	maxStderr = 4 << 10     // bytes of stderr that are kept
)

// Why a child was ended.
var (
	ErrLate  = errors.New("it did not answer in time and was ended")
	ErrSpent = errors.New("it used up its processor time and was ended")
	ErrLong  = errors.New("its answer was too long and it was ended")
)

// AnySize is no limit on files.
const AnySize = math.MaxUint64

// Limits bound a child.
type Limits struct {
	Time   time.Duration // from a question to its answer
	Work   time.Duration // processor time of all threads for a question, rounded up to seconds; 0: no limit. On Linux only; a child in Go must call Heed
	Memory uint64        // bytes of data; on Linux only
	Output int64         // bytes of an answer
	File   uint64        // bytes of each file that it writes; 0: a write ends it; AnySize: no limit. On Linux only
}

// Child is a program to run.
type Child struct {
	Path   string
	Args   []string // without the program's name
	Env    []string // all of its environment
	Dir    string   // working folder; this process's unless given
	Tied   bool     // the kernel kills it, but not its children, when this process dies; for Ask. On Linux only
	Limits Limits
}

// Answer is what a child wrote.
type Answer struct {
	Text   []byte // to stdout
	Stderr string // to stderr, the first part
}

// Ask starts the child, writes the question and returns the answer. An error is ErrLate,
// ErrSpent, ErrLong, that of ctx, or how the child ended; the answer then holds what the
// child wrote before.
func (c Child) Ask(ctx context.Context, question []byte) (Answer, error) {
	timed, cancel := context.WithTimeout(ctx, c.Limits.Time)
	defer cancel()
	cmd, said := c.command(timed)
	if c.Tied {
		defer tie(cmd)() // this goroutine keeps its thread until the child has ended
	}
	text, err := c.Limits.exchange(cmd, question)
	return Answer{text, said.String()}, c.Limits.whyEnded(ctx, timed, cmd, int64(len(text)), err)
}

// command returns the child as a command that is killed when ctx ends.
func (c Child) command(ctx context.Context) (*exec.Cmd, *outputHead) {
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = append([]string{}, c.Env...), c.Dir, grace // an empty environment is not nil
	setProcessGroup(cmd)
	said := &outputHead{}
	cmd.Stderr = said
	return cmd, said
}

// whyEnded returns why there is no answer within the limits; err, if no limit is the reason.
func (l Limits) whyEnded(ctx, timed context.Context, cmd *exec.Cmd, length int64, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case timed.Err() != nil:
		return ErrLate
	case l.spent(cmd.ProcessState):
		return ErrSpent
	case length > l.Output:
		return ErrLong
	}
	return err
}

// exchange writes the question while it reads the answer: a child may answer before it has read
// everything. The error of Wait shows if it ended early.
func (l Limits) exchange(cmd *exec.Cmd, question []byte) ([]byte, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	limited := l.set(cmd.Process.Pid, 1) // meanwhile the child waits for its question
	written := make(chan struct{})
	go func() {
		defer close(written)
		if limited == nil {
			_, _ = in.Write(question)
		}
		_ = in.Close()
	}()
	text, readErr := io.ReadAll(io.LimitReader(out, l.Output+1))
	if int64(len(text)) > l.Output || limited != nil {
		_ = cmd.Cancel() // the child would wait for a reader
	}
	waited := cmd.Wait()
	<-written
	return text, errors.Join(limited, waited, readErr)
}

// outputHead keeps the first part of what is written to it.
type outputHead struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// String returns what is kept.
func (h *outputHead) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

// Write never fails.
func (h *outputHead) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text.Write(p[:min(len(p), maxStderr-h.text.Len())])
	return len(p), nil
}
