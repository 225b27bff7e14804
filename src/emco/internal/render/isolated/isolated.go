// Package isolated renders in a child process: a chart that loops, grows or crashes the
// renderer affects only its own rendering. Requests and answers are JSON.
//
// Projects share the children (package fairshare). A rendering is short at first. One that
// needs more time starts again as a long one; long renderings leave a permit to short ones, and
// those that ran out of time before come last.
package isolated

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/confined"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// Limits bound one rendering.
type Limits struct {
	Work     time.Duration // processor time of the child, rounded up to seconds
	Time     time.Duration // from the start of the child to its answer, by the clock
	Memory   uint64        // bytes of data that the child may have
	Input    int64         // bytes of a packed package or profile
	Output   int64         // bytes of an answer
	Parallel int           // children at a time; others wait, and a project without any has one more
	// Weight returns how many times the time of others a project may use while others wait;
	// nil: once.
	Weight func(project string) int
}

// A short rendering takes a tenth of Limits.Work. If many apps of a revision need more, it is
// a fortieth for the others: they delay the good apps of the revision by less than one long
// rendering.
const (
	shortPart  = 10
	briefPart  = 40
	manyWasted = 5
	leastShort = 100 * time.Millisecond // a child needs some time to start
)

// Patience is the allowed ratio of clock time to processor time of a rendering. Rendering
// computes only: a child that takes longer was waiting for a processor, which is not the
// chart's fault.
const Patience = 12

// Default returns limits that fit charts with hundreds of objects.
func Default() Limits {
	return Limits{
		Work:     10 * time.Second,
		Time:     Patience * 10 * time.Second,
		Memory:   512 << 20,
		Input:    20 << 20,
		Output:   64 << 20,                      // 20 MiB of objects, with their encoding
		Parallel: max(2, runtime.GOMAXPROCS(0)), // so that a long rendering leaves one
	}
}

// New returns a renderer that starts command for each request. The command must call Main
// with a renderer of the given edition. It gets no environment.
func New(edition string, command []string, l Limits) render.Renderer {
	n := max(1, l.Parallel)
	return &processRenderer{
		edition: edition, command: command, limits: l,
		shares: fairshare.New(fairshare.Options{Permits: n, Spare: 1, NotFresh: max(1, n-1), Weight: l.Weight}),
	}
}

type processRenderer struct {
	edition string
	command []string
	limits  Limits
	shares  *fairshare.Shares
	slow    slowPackages
}

// Edition is that of the child's renderer.
func (p *processRenderer) Edition() string { return p.edition }

// Render renders in a child. If the child exceeds a limit, the error is Invalid with a
// Fault; if it got too little processor time, Unavailable; if it cannot be started,
// Internal.
func (p *processRenderer) Render(ctx context.Context, req render.Request) (render.Result, error) {
	key := packageOf(req)
	rank := p.slow.rank(key)
	if short := p.short(req.Budget); rank == fairshare.Fresh && short < p.limits.Work {
		res, err := p.renderIn(ctx, req, childRun{rank: rank, work: short})
		if !errors.Is(err, confined.ErrSpent) {
			return res, err
		}
		req.Budget.Waste()
		rank = fairshare.Slow
		p.slow.remember(key, rank)
	}
	end, spentBy, err := req.Budget.Begin(ctx, req.App, rank)
	if err != nil {
		return render.Result{}, err
	}
	if spentBy != "" {
		return render.Result{}, blame(req.App, fmt.Sprintf(
			"was not rendered: it takes more than %s of processor time, and app %s of this deployment used up the time of its slow apps; mend that app, then update", p.short(nil), spentBy))
	}
	res, err := p.renderIn(ctx, req, childRun{rank: rank, work: p.limits.Work})
	ranOut := errors.Is(err, confined.ErrSpent)
	end(ranOut)
	if !ranOut {
		return res, err
	}
	p.slow.remember(key, fairshare.Spent)
	return render.Result{}, blame(req.App, fmt.Sprintf("rendering took more than %s of processor time and was ended; does a template loop?", p.limits.Work))
}

// short returns the processor time of a short rendering.
func (p *processRenderer) short(b *render.Budget) time.Duration {
	if b.Wasted() >= manyWasted {
		return max(p.limits.Work/briefPart, leastShort)
	}
	return max(p.limits.Work/shortPart, leastShort)
}

// childRun is one start of a child.
type childRun struct {
	rank fairshare.Rank
	work time.Duration // processor time
}

// renderIn renders once a permit is free. The error is confined.ErrSpent if the child used up
// the time of the run.
func (p *processRenderer) renderIn(ctx context.Context, req render.Request, r childRun) (render.Result, error) {
	release, err := p.shares.Acquire(ctx, req.Project, r.rank)
	if err != nil {
		return render.Result{}, err
	}
	defer release()
	q, err := p.ask(ctx, req, r.work)
	if err != nil {
		return render.Result{}, err
	}
	text, err := p.run(ctx, req.App, q, r)
	if err != nil {
		return render.Result{}, err
	}
	var a renderAnswer
	if err := json.Unmarshal(text, &a); err != nil {
		return render.Result{}, fmt.Errorf("render app %s: the child's answer is no JSON: %w", req.App, err)
	}
	return a.open()
}

// ask encodes the request for a child.
func (p *processRenderer) ask(ctx context.Context, req render.Request, work time.Duration) ([]byte, error) {
	pack, err := p.read(ctx, req.App, "package", req.Package)
	if err != nil {
		return nil, err
	}
	profile, err := p.read(ctx, req.App, "profile", req.Profile)
	if err != nil {
		return nil, err
	}
	return json.Marshal(renderRequest{
		App: req.App, Package: pack, Profile: profile, Overrides: req.Overrides,
		Release: req.Release, Namespace: req.Namespace, Labels: req.Labels, Work: work,
	})
}

// read reads a whole archive; nil if there is none.
func (p *processRenderer) read(ctx context.Context, app, what string, a render.Archive) (*packedArchive, error) {
	if err := ctx.Err(); err != nil || a.Open == nil {
		return nil, err
	}
	in, err := a.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("open %s of app %s: %w", what, app, err)
	}
	content, err := io.ReadAll(io.LimitReader(in, p.limits.Input+1))
	if err := errors.Join(err, in.Close()); err != nil {
		return nil, fmt.Errorf("read %s of app %s: %w", what, app, err)
	}
	if int64(len(content)) > p.limits.Input {
		return nil, blame(app, fmt.Sprintf("%s is larger than %d bytes", what, p.limits.Input))
	}
	return &packedArchive{Digest: a.Digest, Content: content}, nil
}

// run starts a child and returns its answer. The error is confined.ErrSpent if the child used
// up the time of the run.
func (p *processRenderer) run(ctx context.Context, app string, question []byte, r childRun) ([]byte, error) {
	child := confined.Child{
		Path: p.command[0], Args: p.command[1:],
		// A child lives for one chart: it starts without collecting the garbage of its start.
		Env:    []string{"GOGC=400", fmt.Sprintf("GOMEMLIMIT=%d", p.limits.Memory/4*3), "GOTRACEBACK=single"},
		Limits: confined.Limits{Time: p.limits.Time, Work: r.work, Memory: p.limits.Memory, Output: p.limits.Output},
	}
	a, err := child.Ask(ctx, question)
	switch {
	case err == nil:
		return a.Text, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, confined.ErrLate):
		return nil, errs.New(errs.Unavailable, fmt.Sprintf(
			"app %s: rendering was not done after %s, though it had not had %s of processor time, and was ended; this machine is busy", app, p.limits.Time, r.work))
	case errors.Is(err, confined.ErrSpent):
		return nil, confined.ErrSpent
	case errors.Is(err, confined.ErrLong):
		return nil, blame(app, fmt.Sprintf("renders to more than %d bytes", p.limits.Output))
	case outOfMemory(a.Stderr):
		return nil, blame(app, fmt.Sprintf("rendering needs more than %d MiB of memory and was ended; does a template build long lists?", p.limits.Memory>>20))
	case strings.Contains(a.Stderr, "stack overflow"):
		return nil, blame(app, "a template calls itself without end")
	}
	return nil, fmt.Errorf("render app %s in a child: %w: %s", app, err, a.Stderr)
}

// outOfMemory reports whether a Go program's stderr reports a lack of memory,
// including memory for the stack of a thread.
func outOfMemory(stderr string) bool {
	for _, sign := range []string{"out of memory", "cannot allocate memory", "failed to reserve", "pthread_create failed", "failed to create new OS thread"} {
		if strings.Contains(stderr, sign) {
			return true
		}
	}
	return false
}

func blame(app, reason string) error {
	return (&render.Fault{App: app, Reason: reason}).Invalid()
}

// renderRequest is a request in the form that crosses the pipe.
type renderRequest struct {
	App                string
	Package, Profile   *packedArchive
	Overrides          []render.Override
	Release, Namespace string
	Labels             []render.Label
	Work               time.Duration // processor time of the child
}

// packedArchive is an archive with its content.
type packedArchive struct {
	Digest  manifest.Digest
	Content []byte
}

// archive returns a in the form of a request; zero if there is none.
func (a *packedArchive) archive() render.Archive {
	if a == nil {
		return render.Archive{}
	}
	return render.Archive{Digest: a.Digest, Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(a.Content)), nil
	}}
}

// renderAnswer is a result or an error in the form that crosses the pipe.
type renderAnswer struct {
	Result render.Result
	Fault  *render.Fault `json:",omitempty"`
	Kind   errs.Kind     `json:",omitempty"` // of an error without a fault
	Error  string        `json:",omitempty"`
}

// open returns what Render returned in the child.
func (a renderAnswer) open() (render.Result, error) {
	switch {
	case a.Fault != nil:
		return render.Result{}, a.Fault.Invalid()
	case a.Error != "":
		return render.Result{}, errs.New(a.Kind, a.Error)
	}
	return a.Result, nil
}
