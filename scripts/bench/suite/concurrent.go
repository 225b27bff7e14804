package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/plain"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/peers"
	"github.com/emco-orchestrator/emco/scripts/bench/site"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// period is the duration of the load.
const period = 2 * time.Second

// writeMethod is one caller's method to make a file durable on the branch of a site.
type writeMethod struct {
	name string
	open func(ctx context.Context, s *site.Site) (put func(ctx context.Context, path string, text []byte) error, done func(), err error)
	lost *atomic.Int64 // refused pushes after a move of the branch
	most int           // largest number of callers; 0: no limit
}

// concurrent measures many callers on one branch: P5.
func (s *Suite) concurrent(ctx context.Context) error {
	callers := []int{8, 32, 1000}
	for _, n := range callers {
		for _, w := range shuffled(s, concurrentWays()) {
			if w.most > 0 && n > w.most {
				continue
			}
			of := fmt.Sprintf("%d callers, branch of 10,000 files", n)
			s.turn("P5 "+of+" "+w.name, func() {
				sample := s.callers(ctx, w, n)
				sample.Metric, sample.Case, sample.Peer = "P5", of, w.name
				s.add(sample)
			})
		}
	}
	s.hostedCallers(ctx)
	return ctx.Err()
}

// oneCaller measures one caller on branches of several sizes: P6.
func (s *Suite) oneCaller(ctx context.Context) error {
	for _, clusters := range []int{10, 100} {
		for _, w := range shuffled(s, []writeMethod{engine(), grouped(), workTree()}) {
			of := fmt.Sprintf("branch of %d files", clusters*apps*resources)
			s.turn("P6 "+of+" "+w.name, func() {
				sample := s.calls(ctx, w, 1, clusters)
				sample.Metric, sample.Case, sample.Peer = "P6", of, w.name
				s.add(sample)
			})
		}
	}
	return ctx.Err()
}

func concurrentWays() []writeMethod { return []writeMethod{grouped(), optimistic(), workTree()} }

// grouped is our writer: one goroutine for the branch, which takes all waiting changes.
func grouped() writeMethod {
	return writeMethod{name: figures.Writer, open: func(_ context.Context, s *site.Site) (func(context.Context, string, []byte) error, func(), error) {
		host := plain.New(plain.Options{})
		writers := batch.New(host, batch.Options{})
		put := func(ctx context.Context, path string, text []byte) error {
			_, err := writers.Submit(ctx, batch.Job{Repo: s.Repo(), Branch: site.Branch, Title: "change", Edits: []git.Edit{{Path: path, File: text}}})
			return err
		}
		return put, func() { writers.Close(); _ = host.Close() }, nil
	}}
}

// engine is the layer below our writer, without its queue and its window; for one caller.
func engine() writeMethod {
	return writeMethod{name: "ours: engine", open: func(ctx context.Context, s *site.Site) (func(context.Context, string, []byte) error, func(), error) {
		host := plain.New(plain.Options{})
		head, err := host.Head(ctx, s.Repo(), site.Branch)
		put := func(ctx context.Context, path string, text []byte) error {
			next, err := host.Commit(ctx, s.Repo(), site.Branch, head, []git.Edit{{Path: path, File: text}}, git.Message{Title: "change"})
			if err == nil {
				head = next
			}
			return err
		}
		return put, func() { _ = host.Close() }, err
	}}
}

// optimistic is the same engine used by independent callers: each reads the head, commits on top and
// starts again after a lost race.
func optimistic() writeMethod {
	w := writeMethod{name: "optimistic retry", lost: new(atomic.Int64), most: 32}
	w.open = func(_ context.Context, s *site.Site) (func(context.Context, string, []byte) error, func(), error) {
		host := plain.New(plain.Options{})
		put := func(ctx context.Context, path string, text []byte) error {
			for {
				head, err := host.Head(ctx, s.Repo(), site.Branch)
				if err == nil {
					_, err = host.Commit(ctx, s.Repo(), site.Branch, head, []git.Edit{{Path: path, File: text}}, git.Message{Title: "change"})
				}
				if !errs.Is(err, errs.Conflict) || ctx.Err() != nil {
					return err
				}
				w.lost.Add(1)
			}
		}
		return put, func() { _ = host.Close() }, nil
	}
	return w
}

// workTree is the git program on one work tree, under a lock.
func workTree() writeMethod {
	return writeMethod{name: "git add, commit, push under a lock", most: 32, open: func(ctx context.Context, s *site.Site) (func(context.Context, string, []byte) error, func(), error) {
		work, err := s.Clone(ctx)
		var one sync.Mutex
		put := func(ctx context.Context, path string, text []byte) error {
			one.Lock()
			defer one.Unlock()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			at := filepath.Join(work.Dir, filepath.FromSlash(path))
			err := os.MkdirAll(filepath.Dir(at), 0o755)
			for _, do := range []func() error{
				func() error { return os.WriteFile(at, text, 0o644) },
				func() error { return work.Git(ctx, "add", "-A") },
				func() error { return work.Git(ctx, "commit", "-q", "-m", "change") },
				func() error { return work.Git(ctx, "push", "-q", "origin", site.Branch) },
			} {
				if err == nil {
					err = do()
				}
			}
			return err
		}
		return put, func() {}, err
	}}
}

func (s *Suite) callers(ctx context.Context, w writeMethod, n int) figures.Sample {
	return s.calls(ctx, w, n, 100)
}

// calls runs n callers that change their own files on a branch with a fleet's files, and checks that
// the branch contains all acknowledged changes.
func (s *Suite) calls(ctx context.Context, w writeMethod, n, clusters int) figures.Sample {
	home, err := site.Open(ctx, s.folder())
	if err != nil {
		return figures.Sample{Failed: err.Error()}
	}
	defer home.Close()
	base := world.New(world.Spec{Apps: apps, Clusters: clusters, Resources: resources, Bytes: bytesEach})
	if err := home.Seed(ctx, base.Make(world.Change{Kind: world.Install}), func(string) string { return site.Branch }); err != nil {
		return figures.Sample{Failed: err.Error()}
	}
	put, done, err := w.open(ctx, home)
	if err != nil {
		return figures.Sample{Failed: err.Error()}
	}
	defer done()
	if err := put(ctx, "hello", []byte("hello\n")); err != nil {
		return figures.Sample{Failed: err.Error()}
	}
	c := &callerGroup{put: put, acknowledged: make([]int, n), durations: make([][]float64, n)}
	commits, _ := home.Commits(ctx)
	if w.lost != nil {
		w.lost.Store(0)
	}
	cpu, began := peers.CPU(), time.Now()
	err = c.run(ctx)
	sample := c.sample(time.Since(began), err)
	after, _ := home.Commits(ctx)
	sample.Values["commits"], sample.Values["cpu"] = float64(after-commits), (peers.CPU() - cpu).Seconds()
	if w.lost != nil {
		sample.Values["refused"] = float64(w.lost.Load())
	}
	s.found(ctx, &sample, c, home)
	return sample
}

// found checks for all acknowledged changes, and for damage.
func (s *Suite) found(ctx context.Context, sample *figures.Sample, c *callerGroup, home *site.Site) {
	lost, err := c.missing(ctx, home)
	if err == nil {
		err = home.Bare.Fsck(ctx)
	}
	if sample.Values["lost"] = float64(lost); lost > 0 && err == nil {
		err = fmt.Errorf("%d acknowledged changes are not on the branch", lost)
	}
	if err != nil && sample.Failed == "" {
		sample.Failed = err.Error()
	}
}

// callerGroup is many callers. Each writes a number to its file and increments it each time.
type callerGroup struct {
	put          func(ctx context.Context, path string, text []byte) error
	acknowledged []int       // the highest acknowledged number, by caller
	durations    [][]float64 // seconds, by caller

	late atomic.Int64 // callers whose last change was cancelled
}

func (c *callerGroup) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*period) // for running changes at the end
	defer cancel()
	end := time.Now().Add(period)
	failures := make([]error, len(c.acknowledged))
	var all sync.WaitGroup
	for i := range c.acknowledged {
		all.Go(func() {
			for k := 1; time.Now().Before(end); k++ {
				began := time.Now()
				switch err := c.put(ctx, callerPath(i), fmt.Appendf(nil, "%d\n", k)); {
				case err != nil && ctx.Err() != nil:
					c.late.Add(1)
					return
				case err != nil:
					failures[i] = err
					return
				}
				c.acknowledged[i], c.durations[i] = k, append(c.durations[i], time.Since(began).Seconds())
			}
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

func callerPath(i int) string { return fmt.Sprintf("callers/%02d/%04d", i%32, i) }

func (c *callerGroup) sample(took time.Duration, err error) figures.Sample {
	all := slices.Concat(c.durations...)
	out := figures.Sample{Values: map[string]float64{"rate": float64(len(all)) / took.Seconds()}}
	if len(all) > 0 {
		out.Values["p99"] = figures.Quantile(all, 0.99)
	}
	if n := c.late.Load(); n > 0 {
		out.Note = fmt.Sprintf("more than it can do: %d callers were not done %s after the end, and were cancelled", n, 19*period)
	}
	if err != nil {
		out.Failed = err.Error()
	}
	return out
}

// missing counts callers whose last acknowledged change is not on the branch.
func (c *callerGroup) missing(ctx context.Context, s *site.Site) (n int, err error) {
	held, err := s.Below(ctx, "callers")
	if err != nil {
		return 0, err
	}
	for i, k := range c.acknowledged {
		is := func(k int) bool { return held[callerPath(i)] == world.BlobID(fmt.Appendf(nil, "%d\n", k)) }
		if k > 0 && !is(k) && !is(k+1) { // the next one may have landed without an acknowledgement
			n++
		}
	}
	return n, nil
}
