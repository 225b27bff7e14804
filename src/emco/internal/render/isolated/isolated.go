// Package isolated renders in child processes: a chart that loops, grows or crashes the
// renderer affects only its own rendering. Requests and answers are lines of JSON.
//
// A child renders charts of one project, one after the other, until it has had no work for a while. It ends
// before that if a chart broke a limit or left much memory behind. Limits count for each chart,
// and only a child that was started for a chart can blame the chart for a crash.
//
// Package fairshare divides among the projects how many charts are rendered at the same time. A rendering is short at first. One that
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
	"github.com/emco-orchestrator/emco/src/emco/internal/childproc"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// Limits bound one rendering.
type Limits struct {
	Work     time.Duration // processor time of the child, rounded up to seconds
	Time     time.Duration // until the child's answer, by the clock
	Memory   uint64        // bytes of data that the child may have
	Input    int64         // bytes of a packed package or profile
	Output   int64         // bytes of an answer
	Parallel int           // renderings at a time; others wait, and a project without any has one more
	Idle     time.Duration // a child without work ends after it; 0: each chart has a child of its own
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

// A child renders at most maxCharts, and none after one that left more than a part of Limits.Memory
// behind.
const (
	maxCharts = 100
	keepPart  = 4
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
		Idle:     3 * time.Second,
	}
}

// New returns a renderer that starts command for requests. The command must call Main
// with a renderer of the given edition. It gets no environment.
func New(edition string, command []string, l Limits) render.Renderer {
	n := max(1, l.Parallel)
	return &processRenderer{
		edition: edition, command: command, limits: l, idle: &idleChildren{longest: l.Idle},
		shares: fairshare.New(fairshare.Options{Permits: n, Spare: 1, NotFresh: max(1, n-1), Weight: l.Weight}),
	}
}

type processRenderer struct {
	edition string
	command []string
	limits  Limits
	shares  *fairshare.Shares
	slow    slowPackages
	idle    *idleChildren
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
		if !errors.Is(err, childproc.ErrSpent) {
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
			"was not rendered: it takes more than %s of processor time, and app %s of this deployment used up the time of its slow apps; correct that app, then update", p.short(nil), spentBy))
	}
	res, err := p.renderIn(ctx, req, childRun{rank: rank, work: p.limits.Work})
	ranOut := errors.Is(err, childproc.ErrSpent)
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

// renderIn renders once a permit is free. It reads the packages only then: permits also bound the memory that packages
// take. The error is childproc.ErrSpent if the child used up the time of the run.
func (p *processRenderer) renderIn(ctx context.Context, req render.Request, r childRun) (render.Result, error) {
	release, err := p.shares.Acquire(ctx, req.Project, r.rank)
	if err != nil {
		return render.Result{}, err
	}
	var left *childproc.Process // without work; others need not wait for its end
	defer func() {
		release()
		if left != nil {
			left.End()
		}
	}()
	q, err := p.question(ctx, req, r.work)
	if err != nil {
		return render.Result{}, err
	}
	a, child, err := p.run(ctx, req, q, r)
	if left = child; err == nil && a.Fit && child.Fit() && req.Project != "" && p.limits.Idle > 0 {
		left = p.idle.keep(req.Project, child)
	}
	if err != nil {
		return render.Result{}, err
	}
	return a.open()
}

// question encodes the request for a child.
func (p *processRenderer) question(ctx context.Context, req render.Request, work time.Duration) ([]byte, error) {
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
		Release: req.Release, Namespace: req.Namespace, Labels: req.Labels, Work: work, Keep: p.limits.Memory / keepPart,
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

// run has a child answer: one that rendered for the project before, or a new one. It returns the child, if it
// started. The error is childproc.ErrSpent if the child used up the time of the run. A used child that fails in
// another way proves nothing: a new one is asked again.
func (p *processRenderer) run(ctx context.Context, req render.Request, question []byte, r childRun) (renderAnswer, *childproc.Process, error) {
	if child := p.idle.take(req.Project); child != nil {
		a, err := p.ask(ctx, child, req, question, r)
		if err == nil || ctx.Err() != nil || errors.Is(err, childproc.ErrSpent) || errs.Is(err, errs.Unavailable) {
			return a, child, err
		}
		child.End()
	}
	child, err := p.child().Start(maxCharts)
	if err != nil {
		return renderAnswer{}, nil, fmt.Errorf("render app %s in a child: %w", req.App, err)
	}
	a, err := p.ask(ctx, child, req, question, r)
	return a, child, err
}

// child describes the children.
func (p *processRenderer) child() childproc.Child {
	l := p.limits
	return childproc.Child{
		Path: p.command[0], Args: p.command[1:],
		// A child lives for a few charts: it starts without collecting the garbage of its start.
		Env:    []string{"GOGC=400", fmt.Sprintf("GOMEMLIMIT=%d", l.Memory/4*3), "GOTRACEBACK=single"},
		Limits: childproc.Limits{Time: l.Time, Work: l.Work, Memory: l.Memory, Output: l.Output},
	}
}

// ask has a child answer.
func (p *processRenderer) ask(ctx context.Context, child *childproc.Process, req render.Request, question []byte, r childRun) (a renderAnswer, err error) {
	text, err := child.Ask(ctx, question, r.work)
	if err != nil {
		return a, p.explain(ctx, req.App, text, r, err)
	}
	if err := json.Unmarshal(text.Text, &a); err != nil {
		return a, fmt.Errorf("render app %s: the child's answer is no JSON: %w", req.App, err)
	}
	return a, nil
}

// explain returns the error of a rendering whose child ended.
func (p *processRenderer) explain(ctx context.Context, app string, a childproc.Answer, r childRun, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, childproc.ErrLate):
		return errs.New(errs.Unavailable, fmt.Sprintf(
			"app %s: rendering was not done after %s, though it had not had %s of processor time, and was ended; this machine is busy", app, p.limits.Time, r.work))
	case errors.Is(err, childproc.ErrSpent):
		return childproc.ErrSpent
	case errors.Is(err, childproc.ErrLong):
		return blame(app, fmt.Sprintf("renders to more than %d bytes", p.limits.Output))
	case outOfMemory(a.Stderr):
		return blame(app, fmt.Sprintf("rendering needs more than %d MiB of memory and was ended; does a template build long lists?", p.limits.Memory>>20))
	case strings.Contains(a.Stderr, "stack overflow"):
		return blame(app, "a template calls itself without end")
	}
	return fmt.Errorf("render app %s in a child: %w: %s", app, err, a.Stderr)
}

// outOfMemory reports whether a Go program's stderr reports a lack of memory,
// including memory for the stack of a thread. The collector of Go's run time crashes if it gets none for its
// own lists; a template cannot cause such a crash, because its faults are panics.
func outOfMemory(stderr string) bool {
	for _, sign := range []string{"SIGSEGV: segmentation violation\nPC=", "out of memory", "cannot allocate memory", "failed to reserve", "pthread_create failed", "failed to create new OS thread"} {
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
	Work               time.Duration // processor time for the chart
	Keep               uint64        // most bytes of memory of a child that may render another chart
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
	Fit    bool          // the child may render another chart
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
