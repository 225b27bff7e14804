// Package kubeapplier delivers to clusters that are reached directly: it applies the steps of
// pairs, and watches what becomes of their objects. Of a target's apps it first applies those
// that bring definitions. For a confined logical cloud (appcontext.Cloud) it acts as the cloud's user.
package kubeapplier

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/steps"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// tolerance is how long before its next try a pair may be tried together with others of
// its target.
const tolerance = 100 * time.Millisecond

// Options are what an applier works with.
type Options struct {
	Sink    *kube.Sink
	Content *content.Reader
	Plans   *content.StepPlans
	Pairs   func(pair.Target) []appcontext.Pair // of a target, in order of app
	// Cloud returns the logical cloud of a target, and whether its revision was read.
	Cloud   func(pair.Target) (appcontext.Cloud, bool)
	Permits *fairshare.Shares        // bounds the clusters that are worked on at the same time
	Project func(pair.Target) string // whose share of the permits a target uses
	Report  func(context.Context, appcontext.Report)
	Panics  *contain.Panics
	Log     *slog.Logger
}

// Applier applies pairs to clusters. It keeps a connection to a cluster until its
// kubeconfig changes. It owns the goroutines that watch; Stop ends them.
type Applier struct {
	Options
	ctx context.Context // of the watches

	// mu is held while a new connection is made and an old one is closed, which waits for the
	// old one's watcher. So a slow start of one connection delays the other clusters'.
	mu    sync.Mutex
	conns map[v2.ClusterKey]*connection // by cluster; guarded by mu
}

// NewApplier returns an applier whose watches end with ctx, or by Stop.
func NewApplier(ctx context.Context, o Options) *Applier {
	return &Applier{Options: o, ctx: ctx, conns: map[v2.ClusterKey]*connection{}}
}

// Deliver applies those of the target's pairs that are due, one after the other, and
// watches the objects of all its pairs.
func (a *Applier) Deliver(ctx context.Context, t pair.Target, r route.Route) []pair.Result {
	pairs := a.Pairs(t)
	rank := fairshare.Fresh
	if pair.Tried(pairs) {
		rank = fairshare.Slow
	}
	release, err := a.Permits.Acquire(ctx, a.Project(t), rank)
	if err != nil {
		return nil
	}
	defer release()
	pairs = a.Pairs(t) // they may have changed
	cloud, known := a.Cloud(t)
	if !known && slices.ContainsFunc(pairs, func(p appcontext.Pair) bool { return p.Desired != "" }) {
		return pair.Failures(pairs, errs.E(errs.Unavailable, "apply", string(t.Deployment), errors.New("its logical cloud is not loaded yet, so EMCO cannot choose the user that applies its apps; EMCO tries again")))
	}
	c, err := a.connect(t.Cluster, r) // it may wait for other clusters
	if err != nil {
		return pair.Failures(pairs, err)
	}
	as, err := c.as(ctx, cloud)
	if err != nil {
		return pair.Failures(pairs, err)
	}
	latest := time.Now().Add(tolerance)
	due, err := a.definersFirst(ctx, pair.AllDeliverable(pairs))
	if err != nil {
		return pair.Failures(pairs, err)
	}
	var out []pair.Result
	for _, p := range due {
		if pair.MayRetry(p, latest) {
			result := pair.Result{Key: p.Key, Bundle: p.Desired}
			if err := a.Panics.Do(contain.Rsync, t.Name(), func() error {
				result = a.apply(ctx, as, p)
				return nil
			}); err != nil {
				result.Err = err
			}
			result.Err = soon(p, cloud, result.Err)
			out = append(out, result)
		}
	}
	for _, p := range pairs {
		if err := a.watch(ctx, c, p); err != nil {
			a.Log.Warn("app not watched", "cluster", t.Cluster, "app", p.Key.App, "err", err)
		}
	}
	return out
}

// definersFirst moves pairs that bring definitions to the front: other apps may have objects
// of the defined kinds.
func (a *Applier) definersFirst(ctx context.Context, pairs []appcontext.Pair) ([]appcontext.Pair, error) {
	var first, rest []appcontext.Pair
	for _, p := range pairs {
		defines, err := a.defines(ctx, p.Desired)
		switch {
		case err != nil:
			return nil, err
		case defines:
			first = append(first, p)
		default:
			rest = append(rest, p)
		}
	}
	return append(first, rest...), nil
}

// defines reports whether a bundle has definitions.
func (a *Applier) defines(ctx context.Context, bundle appcontext.Digest) (bool, error) {
	b, err := a.Plans.Bundle(ctx, bundle)
	if err != nil {
		return false, err
	}
	isCRD := func(r appcontext.Ref) bool { return manifest.IsCRD(r.ID) }
	return slices.ContainsFunc(b.CRDs, isCRD) || slices.ContainsFunc(b.Objects, isCRD), nil
}

// Defined reports whether results brought definitions, namespaces or permissions to a cluster:
// what failed there before may succeed now.
func (a *Applier) Defined(ctx context.Context, results []pair.Result) bool {
	return slices.ContainsFunc(results, func(r pair.Result) bool {
		if r.Err != nil {
			return false
		}
		b, err := a.Plans.Bundle(ctx, r.Bundle)
		return err == nil && (slices.ContainsFunc(b.CRDs, enables) || slices.ContainsFunc(b.Objects, enables))
	})
}

// enables reports whether other objects may need an object before they can be applied.
func enables(r appcontext.Ref) bool {
	switch {
	case r.Group == "" && r.Kind == "Namespace":
		return true
	case r.Group == "rbac.authorization.k8s.io":
		return true
	}
	return manifest.IsCRD(r.ID)
}

// apply carries out a pair's step.
func (a *Applier) apply(ctx context.Context, c *kube.Cluster, p appcontext.Pair) pair.Result {
	step, last, err := a.Plans.At(ctx, p, false)
	out := pair.ResultOf(p, step, last)
	if out.Err = err; err != nil {
		return out
	}
	desired, err := a.desired(ctx, p, step)
	if out.Err = err; err != nil {
		return out
	}
	applied, err := c.Apply(ctx, desired)
	out.Findings, out.Err = applied.Findings, err
	if err != nil {
		out.Outcome = outcomeOf(p, step, applied)
	}
	return out
}

// maxListed bounds the objects that an outcome names.
const maxListed = 100

// outcomeOf returns what became of the objects of a pair in an attempt that failed; nil if
// that is not known of each. Steps before the main one deliver none of them, and after it
// the pair holds all.
func outcomeOf(p appcontext.Pair, step steps.Step, r kube.Result) *appcontext.Outcome {
	out := &appcontext.Outcome{Ended: true}
	switch {
	case p.Desired == "" || p.Applied == p.Desired || len(r.Failed) > maxListed || r.Ended && len(r.Accepted) > maxListed:
		return nil
	case step.Kind != steps.Main:
		return out
	}
	if out.Ended = r.Ended; r.Ended {
		out.Accepted = r.Accepted
	}
	for _, f := range r.Failed {
		out.Refused = append(out.Refused, appcontext.Refusal{ID: f.ID, Reason: pair.Clip(f.Err.Error())})
	}
	return out
}

// desired is what a step makes of the cluster. Before the main step only hooks are removed.
// The main step removes everything that may be there and must not stay.
func (a *Applier) desired(ctx context.Context, p appcontext.Pair, step steps.Step) (kube.AppState, error) {
	out := kube.AppState{Deployment: p.Key.Deployment, App: p.Key.App}
	app, err := a.Content.AppOf(ctx, step.Add)
	if err != nil {
		return out, err
	}
	out.Desired, out.CRDs = app.Objects, app.CRDs
	if step.Kind != steps.Main && !(step.Kind == steps.Tidy && p.Desired == "") {
		out.Previous = content.AppendNew(nil, step.Drop, map[manifest.ID]bool{})
		return out, nil
	}
	out.Previous, err = a.Content.IDs(ctx, p.Held)
	keep := map[manifest.ID]bool{}
	for _, r := range step.Keep {
		keep[steps.Key(r.ID)] = true
	}
	out.Previous = slices.DeleteFunc(out.Previous, func(id manifest.ID) bool { return keep[steps.Key(id)] })
	return out, err
}

// watch watches the objects of a pair and what its steps wait for; those of a pair that is
// removed only while a step waits for them.
func (a *Applier) watch(ctx context.Context, c *connection, p appcontext.Pair) error {
	b, err := a.Plans.Bundle(ctx, p.Desired)
	if err != nil {
		return err
	}
	seen := map[manifest.ID]bool{}
	ids := content.AppendNew(content.AppendNew(nil, b.CRDs, seen), b.Objects, seen)
	if p.Phase != appcontext.Applied {
		plan, err := a.Plans.Of(ctx, p, false)
		if err != nil {
			return err
		}
		for _, step := range plan {
			if step.Kind != steps.Define { // the sink waits for definitions itself
				ids = content.AppendNew(ids, step.About, seen)
			}
		}
	}
	if len(ids) == 0 {
		c.forget(p.Key)
	} else {
		c.track(p.Key, fmt.Sprint(p.Change, " ", p.From, " ", p.Desired), ids)
	}
	return nil
}

// connect returns the connection to a cluster, a new one if the kubeconfig has changed.
func (a *Applier) connect(name v2.ClusterKey, r route.Route) (*connection, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sum := sha256.Sum256(r.Kubeconfig)
	old := a.conns[name]
	if old != nil && old.kubeconfig == sum {
		return old, nil
	}
	cluster, err := a.Sink.Connect(r.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if old != nil {
		old.close()
	}
	a.conns[name] = connect(a.ctx, name, cluster, sum, a.Options)
	return a.conns[name], nil
}

// Connected returns the clusters that the applier has a connection to.
func (a *Applier) Connected() []v2.ClusterKey {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.conns))
}

// Stop ends all watches and closes all connections. Deliver must have returned, and must
// not be called again.
func (a *Applier) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns {
		c.close()
	}
}
