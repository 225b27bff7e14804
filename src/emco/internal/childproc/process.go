package childproc

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"time"
)

// Process is a child that answers several questions, one after the other. Each question and each
// answer is a line. A Process belongs to one goroutine at a time. End must be called once.
type Process struct {
	limits Limits
	left   int // questions
	kill   context.CancelFunc
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	said   *outputHead
	over   bool // it has ended
}

// Start starts a child that answers at most so many questions. Limits.Work is the most that
// a question may ask for; memory is limited for all of them together. The child must end when its stdin
// ends: it cannot be Tied, because the thread that starts it may end before it does.
func (c Child) Start(questions int) (*Process, error) {
	if c.Tied {
		return nil, errors.New("a child that answers several questions cannot be tied to its parent")
	}
	ctx, kill := context.WithCancel(context.Background()) // it outlives the question that it was started for
	p := &Process{limits: c.Limits, left: questions, kill: kill}
	p.cmd, p.said = c.command(ctx)
	if err := p.start(); err != nil {
		kill()
		return nil, err
	}
	if err := c.Limits.set(p.cmd.Process.Pid, questions); err != nil {
		p.kill()
		return nil, errors.Join(err, p.cmd.Wait())
	}
	return p, nil
}

func (p *Process) start() (err error) {
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.out = bufio.NewReader(out)
	return p.cmd.Start()
}

// Ask writes a question, which is one line without its end, and returns the answer, which may take
// so much processor time. After an error, which is as that of Child.Ask, the child has ended.
func (p *Process) Ask(ctx context.Context, question []byte, work time.Duration) (Answer, error) {
	if p.over || p.left == 0 {
		return Answer{}, errors.New("the child answers no more questions")
	}
	p.left--
	timed, cancel := context.WithTimeout(ctx, p.limits.Time)
	defer cancel()
	stop := context.AfterFunc(timed, p.kill)
	defer stop()
	limits := p.limits
	limits.Work = work
	if err := limits.renew(p.cmd.Process.Pid); err != nil {
		p.kill()
		return Answer{}, errors.Join(err, p.wait())
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = p.in.Write(question) // the answer shows if it has ended
		_, _ = p.in.Write([]byte{'\n'})
	}()
	text, err := p.line()
	if err == nil {
		<-written
		if stop() {
			return Answer{Text: text}, nil
		}
	}
	if !errors.Is(err, io.EOF) {
		p.kill()
	}
	ended := p.wait()
	<-written
	why := limits.whyEnded(ctx, timed, p.cmd, int64(len(text)), ended)
	if why == nil { // it ended as if all was well
		why = io.ErrUnexpectedEOF
	}
	return Answer{text, p.said.String()}, why
}

// errTooLong is the error of an answer above Limits.Output.
var errTooLong = errors.New("too long")

// line reads an answer without its end. It stops when the answer is too long.
func (p *Process) line() (text []byte, err error) {
	for {
		part, err := p.out.ReadSlice('\n')
		text = append(text, part...)
		switch {
		case err == nil && int64(len(text)) <= p.limits.Output+1:
			return text[:len(text)-1], nil
		case err == nil || int64(len(text)) > p.limits.Output:
			return text, errTooLong
		case !errors.Is(err, bufio.ErrBufferFull):
			return text, err
		}
	}
}

// Fit reports whether the child may be asked again: it has answered all questions, and has written nothing
// else.
func (p *Process) Fit() bool {
	return !p.over && p.left > 0 && p.out.Buffered() == 0 && p.said.String() == ""
}

// End ends the child, and returns when it has ended. A child that waits for a question ends without force.
func (p *Process) End() {
	if p.over {
		return
	}
	_ = p.in.Close()
	timer := time.AfterFunc(grace, p.kill)
	defer timer.Stop()
	_ = p.wait()
}

// wait waits for the end of the child, and returns how it ended.
func (p *Process) wait() error {
	p.over = true
	defer p.kill()
	_ = p.in.Close()
	return p.cmd.Wait()
}
