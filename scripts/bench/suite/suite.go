// Package suite runs the benchmarks in rounds. A round first measures the speed of the machine, then runs what there is
// time for: comparisons run their peers in random order and check the result, and a wrong result is a failure at any
// speed. What is only counted runs in the first round alone.
package suite

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/scripts/bench/calibrate"
	"github.com/emco-orchestrator/emco/scripts/bench/figures"
)

// Options configure a run.
type Options struct {
	Full bool
	// Services compares one process with several, and measures nothing else.
	Services bool
	Only     []string // metrics; all if empty
	// Earlier are samples of smaller cases: peers that were too slow there do not run again.
	Earlier []figures.Sample
	Rounds  int
	Sizes   []int // clusters; those of the set if empty
	Cap     time.Duration
	Budget  time.Duration // no cell starts after this time; 0: no limit
	Dir     string        // for data; the run creates and removes a folder below it
	Bin     string        // folder of the built programs
	Log     io.Writer
}

// Suite is a running set of benchmarks.
type Suite struct {
	Options
	run   *figures.Run
	began time.Time
	time  *cellSchedule
	dir   string
	seq   int
	round int
	draw  *rand.Rand
	there map[string]bool // parts of the test bed that cases need, and whether they are built
	done  map[string]bool // cells with one measurement only
	over  map[string]bool // peers above the cap, by metric and peer: their larger cases are skipped
}

// Part is a part of the full set that runs by itself.
type Part struct {
	Name   string // of its file
	Only   []string
	Sizes  []int
	Budget time.Duration
}

// Whole is the time of the full set. It is more than the budgets of all parts together, because a cell that has begun
// ends after the budget of its part.
const Whole = 3 * time.Hour

// FullParts are the parts of the full set, first those that decide goals which other sets do not measure.
func FullParts() (out []Part) {
	for _, p := range []struct {
		minutes int
		metrics []string
		sizes   []int // those of the set if empty
	}{
		{2, []string{"P13"}, []int{restarted}},
		{4, []string{"P18"}, nil},
		{4, []string{"P7"}, nil},
		{6, []string{"P1", "P2", "P3", "P9", "P12"}, []int{1000}},
		{12, []string{"P1", "P2", "P3", "P9", "P12"}, []int{10000}},
		{26, []string{"P17"}, []int{3}}, // of which Argo CD's polling takes up to eight
		{26, []string{"P17"}, []int{10}},
		{37, []string{"P17"}, []int{30}},
		{8, []string{"P15"}, nil},
		{4, []string{"P10", "P11", "P13"}, nil},
		{4, []string{"P5"}, nil},
		{3, []string{"P6"}, nil},
		{3, []string{"P8"}, nil},
		{3, []string{"P14"}, nil},
		{3, []string{"P16"}, nil},
		{4, []string{"P21"}, nil},
		{3, []string{"P1", "P2", "P3", "P9", "P12"}, []int{2}},
		{4, []string{"P1", "P2", "P3", "P9", "P12"}, []int{10}},
		{5, []string{"P1", "P2", "P3", "P9", "P12"}, []int{100}},
	} {
		name := p.metrics[0]
		for _, clusters := range p.sizes {
			name += fmt.Sprintf("-%05d", clusters)
		}
		out = append(out, Part{Name: name, Only: p.metrics, Sizes: p.sizes, Budget: time.Duration(p.minutes) * time.Minute})
	}
	return out
}

// metricGroup is a group of metrics with common measurements.
type metricGroup struct {
	metrics []string
	run     func(*Suite, context.Context) error
	once    bool // counts, which are equal in each round
}

// metricGroups are the metrics of the quick and of the full set.
func metricGroups() []metricGroup {
	return []metricGroup{
		{[]string{"P5"}, (*Suite).concurrent, false},
		{[]string{"P6"}, (*Suite).oneCaller, false},
		{[]string{"P7"}, func(s *Suite, ctx context.Context) (err error) {
			s.turn("P7", func() { err = s.reports(ctx) })
			return err
		}, true},
		{[]string{"P8"}, (*Suite).pulls, true},
		{[]string{"P10", "P11", "P13"}, (*Suite).program, false},
		{[]string{"P14"}, (*Suite).blast, false},
		{[]string{"P15"}, (*Suite).churn, true},
		{[]string{"P16"}, (*Suite).hosted, true},
		{[]string{"P17"}, (*Suite).edge, false},
		{[]string{"P18"}, (*Suite).many, true},
		{[]string{"P21"}, (*Suite).choices, true},
		{[]string{"P1", "P2", "P3", "P9", "P12"}, (*Suite).stories, false}, // last, the largest fleets at the end: if time is short, they are skipped
	}
}

// Run measures everything in the options. The error explains why it stopped early; failed samples are
// in the run.
func Run(ctx context.Context, o Options) (run figures.Run, err error) {
	s := &Suite{Options: o, run: &run, began: time.Now(), time: newSchedule(o.Rounds, o.Budget), draw: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)), there: map[string]bool{}, done: map[string]bool{}, over: map[string]bool{}}
	for _, c := range o.Earlier {
		if c.Over {
			s.over[c.Metric+c.Peer] = true
		}
	}
	run = figures.Run{When: s.began, Set: "quick", Cap: o.Cap.Seconds()}
	switch {
	case o.Full:
		run.Set = "full"
	case o.Services:
		run.Set = "services"
	}
	if s.dir, err = os.MkdirTemp(o.Dir, "bench"); err != nil {
		return run, err
	}
	defer os.RemoveAll(s.dir)
	run.Machine, run.Versions = machine(s.dir), versions(ctx)
	for s.round = 1; s.round <= o.Rounds && s.time.begin(s.round); s.round++ {
		if err := s.measureRound(ctx); err != nil {
			return run, err
		}
	}
	run.Left = s.time.left
	Derive(&run)
	run.Machine.LoadAfter, run.Took = load(), time.Since(s.began).Seconds()
	return run, nil
}

// turn runs a cell, if there is time for it in this round.
func (s *Suite) turn(cell string, do func()) {
	if !s.time.may(cell) {
		return
	}
	began := time.Now()
	do()
	s.time.note(cell, time.Since(began))
}

// measureRound runs all cells of a round for which there is time.
func (s *Suite) measureRound(ctx context.Context) error {
	c, err := calibrate.Measure(ctx, s.dir)
	if err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	c.Round, c.LoadThen = s.round, load()
	s.run.Calibration = append(s.run.Calibration, c)
	s.logf("round %d: fsync %.2f ms, SHA-1 and zlib %.0f MB/s, empty push %.1f ms", s.round, c.FsyncMS, c.HashMBs, c.PushMS)
	all := metricGroups()
	if s.Services {
		all = serviceGroups()
	}
	for _, p := range all {
		if p.once && s.round > 1 || !slices.ContainsFunc(p.metrics, s.wanted) {
			continue
		}
		if err := p.run(s, ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s *Suite) wanted(metric string) bool {
	return len(s.Only) == 0 || slices.Contains(s.Only, metric) || metric != "P1" && slices.Contains(s.Only, "P4") && strings.Contains("P2 P3", metric)
}

// folder returns a new folder for a peer.
func (s *Suite) folder() string {
	s.seq++
	return filepath.Join(s.dir, fmt.Sprintf("%04d", s.seq))
}

// add records a sample of this round.
func (s *Suite) add(sample figures.Sample) {
	if s.wanted(sample.Metric) {
		s.record(sample)
	}
}

// record adds a sample, also of a metric that was not asked for.
func (s *Suite) record(sample figures.Sample) {
	sample.Round = s.round
	s.run.Samples = append(s.run.Samples, sample)
	first := figures.Metrics()[slices.IndexFunc(figures.Metrics(), func(m figures.Metric) bool { return m.Name == sample.Metric })].Columns[0]
	said := fmt.Sprintf("%s "+first.Form, first.Head, sample.Values[first.Name])
	switch {
	case sample.Failed != "":
		said = "FAILED: " + sample.Failed
	case sample.Note != "" && sample.Values[first.Name] == 0:
		said = sample.Note
	case sample.Over:
		said = fmt.Sprintf("> %.0f s", s.Cap.Seconds())
	}
	s.logf("  %-4s %-40s %-36s %s", sample.Metric, sample.Case, sample.Peer, said)
	cell := sample.Metric + sample.Case + sample.Peer
	if sample.Over {
		s.done[cell] = true
		s.over[sample.Metric+sample.Peer] = true
	}
}

// sizes of fleets, in clusters.
func (s *Suite) sizes() []int {
	switch {
	case len(s.Sizes) > 0:
		return s.Sizes
	case s.Full:
		return []int{2, 10, 100, 1000, 10000}
	}
	return []int{2, 10, 100, 1000}
}

func (s *Suite) logf(format string, args ...any) {
	fmt.Fprintf(s.Log, "%5.0f s  "+format+"\n", append([]any{time.Since(s.began).Seconds()}, args...)...)
}

// shuffled is a list in random order.
func shuffled[T any](s *Suite, list []T) []T {
	out := slices.Clone(list)
	s.draw.Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
	return out
}
