package suite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/plain"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/site"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

const (
	soak      = 10_000 // commits in the full set
	shortSoak = 500    // on request in the quick set
	stretches = 5      // between two rows of figures
	upkeep    = 200    // commits between two maintenances of the origin
	neglected = 5      // the origin that is never maintained has this part of the commits: each costs more than the one before
)

// churn is a long history of a branch, one commit after the other: P15. It belongs to the full set; the
// quick set has a short form on request.
func (s *Suite) churn(ctx context.Context) error {
	n := soak
	if !s.Full {
		if !slices.Contains(s.Only, "P15") {
			return nil
		}
		n = shortSoak
	}
	s.turn("P15 kept", func() { s.soaked(ctx, n, true) })
	s.turn("P15 never maintained", func() { s.soaked(ctx, n/neglected, false) })
	return ctx.Err()
}

// branchHistory is a writer, its branch, and the desired state.
type branchHistory struct {
	site    *site.Site
	host    *plain.Host
	commits *batch.Writers
	world   *world.World
	draw    *rand.Rand
	made    int  // commits
	kept    bool // the origin is maintained

	upkeeps sync.WaitGroup // one at a time
	mu      sync.Mutex
	spent   time.Duration // on maintenance
	why     error
}

func (s *Suite) soaked(ctx context.Context, n int, kept bool) {
	peer := figures.Writer
	if !kept {
		peer = "ours: writer, origin never maintained"
	}
	note := func(of string, values map[string]float64, err error) {
		sample := figures.Sample{Metric: "P15", Case: of, Peer: peer, Values: values}
		if err != nil {
			sample.Failed = err.Error()
		}
		s.add(sample)
	}
	l, err := s.begin(ctx, kept)
	if err != nil {
		note("preparation", nil, err)
		return
	}
	defer l.end()
	var fifths [][]float64
	for i := range stretches {
		took, err := l.commitMany(ctx, n/stretches)
		fifths = append(fifths, took)
		values := l.measureSizes()
		values["p50"], values["p99"] = figures.Median(took)*1000, figures.Quantile(took, 0.99)*1000
		if note(fmt.Sprintf("commits %d to %d", i*n/stretches+1, (i+1)*n/stretches), values, err); err != nil {
			return
		}
	}
	values, err := l.summarize(ctx, fifths)
	note(fmt.Sprintf("after %d commits", n), values, err)
}

// begin creates a branch of a hundred clusters.
func (s *Suite) begin(ctx context.Context, kept bool) (l *branchHistory, err error) {
	l = &branchHistory{kept: kept, draw: rand.New(rand.NewPCG(1, 15))} // the same changes for both
	if l.site, err = site.Open(ctx, s.folder()); err != nil {
		return nil, err
	}
	l.world = world.New(world.Spec{Apps: apps, Clusters: 100, Resources: resources, Bytes: bytesEach, Shared: true})
	all := l.world.Make(world.Change{Kind: world.Install})
	if err := l.site.Seed(ctx, all, func(string) string { return site.Branch }); err != nil {
		return nil, errors.Join(err, l.site.Close())
	}
	l.host = plain.New(plain.Options{})
	l.commits = batch.New(l.host, batch.Options{Window: time.Microsecond}) // no other caller makes it wait
	return l, nil
}

func (l *branchHistory) end() {
	l.upkeeps.Wait()
	l.commits.Close()
	_ = l.host.Close()
	_ = l.site.Close()
}

// commitMany makes commits: mostly of one manifest on one cluster, one in fifty of a value of an app on
// all. It returns the duration of each, in seconds.
func (l *branchHistory) commitMany(ctx context.Context, n int) (took []float64, err error) {
	for range n {
		change := world.Change{Kind: world.One, App: l.draw.IntN(apps), Cluster: l.draw.IntN(100)}
		if l.draw.IntN(50) == 0 {
			change.Kind = world.Value
		}
		var edits []git.Edit
		for _, pair := range l.world.Make(change) {
			edits = append(edits, git.Edit{Path: pair.Dir(), Dir: pair.Files})
		}
		began := time.Now()
		if _, err := l.commits.Submit(ctx, batch.Job{Repo: l.site.Repo(), Branch: site.Branch, Title: "change", Edits: edits}); err != nil {
			return took, err
		}
		took = append(took, time.Since(began).Seconds())
		if l.made++; l.kept && l.made%upkeep == 0 {
			l.maintain(ctx)
		}
	}
	return took, nil
}

// maintain does a Git server's periodic maintenance, concurrently with commits.
func (l *branchHistory) maintain(ctx context.Context) {
	l.upkeeps.Wait()
	l.upkeeps.Go(func() {
		began := time.Now()
		_, err := l.site.Bare.Git(ctx, "", "repack", "-d", "-q", "--geometric=2", "--write-midx")
		if err == nil {
			_, err = l.site.Bare.Git(ctx, "", "pack-refs", "--all")
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.spent += time.Since(began)
		l.why = errors.Join(l.why, err)
	})
}

// measureSizes measures the sizes.
func (l *branchHistory) measureSizes() map[string]float64 {
	debug.FreeOSMemory()
	out := map[string]float64{"objects": float64(objectFiles(l.site.Bare.Dir))}
	if size, err := l.site.Size(); err == nil {
		out["size"] = float64(size) / (1 << 20)
	}
	if rss, err := resident(); err == nil {
		out["rss"] = float64(rss) / (1 << 20)
	}
	return out
}

// objectFiles counts the object files of a repository.
func objectFiles(dir string) (n int) {
	_ = filepath.WalkDir(filepath.Join(dir, "objects"), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return nil // a file that vanishes during the walk does not count
	})
	return n
}

// summarize compares the end with the start, and the repository with a packed one.
func (l *branchHistory) summarize(ctx context.Context, fifths [][]float64) (map[string]float64, error) {
	l.upkeeps.Wait()
	first, last := figures.Quantile(fifths[0], 0.99), figures.Quantile(fifths[stretches-1], 0.99)
	out := l.measureSizes()
	out["p99"], out["p50"] = figures.Quantile(slices.Concat(fifths...), 0.99)*1000, figures.Median(slices.Concat(fifths...))*1000
	out["drift"] = last / first
	if l.kept {
		out["upkeep"] = l.spent.Seconds()
	}
	held, err := l.site.State(ctx, site.Branch)
	if err == nil {
		err = same(held, l.world.Want())
	}
	if err = errors.Join(l.why, err, l.site.Bare.Fsck(ctx)); err != nil {
		return out, err
	}
	if _, err := l.site.Bare.Git(ctx, "", "repack", "-a", "-d", "-f", "-q"); err != nil {
		return out, err
	}
	packed, err := l.site.Size()
	out["bloat"] = out["size"] / (float64(packed) / (1 << 20))
	return out, err
}

// resident is the memory of this process, in bytes.
func resident() (int64, error) {
	var pages, held int64
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(string(text), &pages, &held)
	return held * int64(os.Getpagesize()), err
}
