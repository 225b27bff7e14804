package fastimport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

const (
	maxListing = 256 << 20       // bytes of a listing of references or files
	maxSaid    = 8 << 10         // bytes of what the program says that are kept
	goodbye    = 5 * time.Second // how long it may take to end when it is told to
)

// run is one run of the git program.
type run struct {
	args []string
	env  []string
	in   io.Reader // nil: nothing
	most int64     // bytes of what it may answer; 0: nothing is kept
	file int64     // bytes of one file that it may write; 0: no bound

	trace *os.File // where it traces what it is answered; nil: nowhere
}

// job is one call of the host about one repository. It holds one of the host's slots, and
// what is known of the repository.
type job struct {
	h     *Host
	ctx   context.Context
	repo  git.Repo
	op    string
	cache *cache
}

// begin waits for what is known of the repository, and for a slot. done gives both back.
func (h *Host) begin(ctx context.Context, r git.Repo, op string) (j *job, done func(), err error) {
	if err := git.CheckURL(r.URL, h.opt.AllowFile); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	kept := h.of(r)
	j = &job{h: h, ctx: ctx, repo: r, op: op, cache: kept}
	for i, free := range []chan struct{}{kept.busy, h.slots} {
		select {
		case free <- struct{}{}:
			continue
		case <-ctx.Done():
		}
		if i > 0 {
			<-kept.busy
		}
		defer cancel()
		return nil, nil, j.fail(ctx.Err())
	}
	return j, func() {
		<-h.slots
		<-kept.busy
		cancel()
	}, nil
}

// fail classifies what went wrong, and clears its text of credentials.
func (j *job) fail(err error) error { return transport.Fail(j.ctx, j.repo, j.op, err) }

// child is a program that runs.
type child struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  io.Reader
	said *tail
}

// limited starts a program that may write files of so many blocks only.
const limited = `ulimit -f "$0" && exec "$@"`

// command returns a command in the folder of what is known, if that is here already. It ends
// with the job.
func (j *job) command(r run) *exec.Cmd {
	args := append([]string{j.h.opt.Git}, r.args...)
	if r.file > 0 {
		args = append([]string{"sh", "-c", limited, strconv.FormatInt(r.file/512+1, 10)}, args...)
	}
	cmd := exec.CommandContext(j.ctx, args[0], args[1:]...)
	cmd.Env = append(j.h.environment(), r.env...)
	if cmd.Dir = os.TempDir(); j.cache.dir != "" {
		cmd.Dir, cmd.Env = j.cache.dir, append(cmd.Env, "GIT_DIR="+j.cache.dir)
	}
	if r.trace != nil {
		cmd.ExtraFiles = []*os.File{r.trace}
	}
	cmd.WaitDelay = goodbye // what it has started may hold its streams open
	alone(cmd)
	return cmd
}

// start starts the program, to be talked to.
func (j *job) start(r run) (*child, error) {
	cmd := j.command(r)
	c := &child{cmd: cmd, said: &tail{}}
	cmd.Stderr = c.said
	var err error
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if c.out, err = cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return c, cmd.Start()
}

// end waits until the program has ended.
func (c *child) end() error {
	_, _ = io.Copy(io.Discard, c.out)
	return c.cmd.Wait()
}

// local has the program do something here.
func (j *job) local(r run) ([]byte, error) {
	cmd := j.command(r)
	out, said := &bounded{most: r.most}, &tail{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.in, out, said
	err := cmd.Run()
	switch {
	case err == nil:
		return out.buf.Bytes(), nil
	case out.over:
		return nil, errs.E(errs.TooLarge, "", "", fmt.Errorf("more than %d bytes", r.most))
	}
	if _, exited := errors.AsType[*exec.ExitError](err); !exited {
		return nil, err
	}
	return out.buf.Bytes(), &programError{command: r.args[0], said: said.String()}
}

// programError is a run that failed; it shows what the program said.
type programError struct{ command, said string }

// Error shows what the program said last.
func (e *programError) Error() string {
	if e.said == "" {
		return "git " + e.command + " failed, and says nothing"
	}
	return "git " + e.command + ": " + e.said
}

// bounded keeps what is written to it, up to a limit.
type bounded struct {
	buf  bytes.Buffer
	most int64
	over bool
}

// Write fails above the limit, which ends the program.
func (b *bounded) Write(p []byte) (int, error) {
	if b.most == 0 {
		return len(p), nil
	}
	if int64(b.buf.Len()+len(p)) > b.most {
		b.over = true
		return 0, errors.New("too much")
	}
	return b.buf.Write(p)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write keeps the last bytes and never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if over := t.buf.Len() - maxSaid; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

// String returns what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(t.buf.String())
}
