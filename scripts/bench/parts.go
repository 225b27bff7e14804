package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/suite"
)

// measureFunc runs the suite; suite.Run does.
type measureFunc func(context.Context, suite.Options) (figures.Run, error)

// fullSet is the full set in a folder: each part has a file there when it is done.
type fullSet struct {
	settings
	all     []suite.Part
	measure measureFunc
	// publish writes the parts that are done, as one run.
	publish func(figures.Run) error
}

// run measures the chosen parts that have no result, or one with failed samples, and publishes all parts that are done after
// each. So a run that was stopped continues with the first part without a result. A part does not begin if its budget
// is more than what is left of the whole time.
func (f fullSet) run(ctx context.Context) (out figures.Run, err error) {
	chosen, err := choose(f.all, f.Only)
	if err != nil {
		return out, err
	}
	if err := os.MkdirAll(f.parts, 0o755); err != nil {
		return out, err
	}
	done, err := f.results()
	if err != nil {
		return out, err
	}
	if len(done) > 0 {
		out = f.merged(done)
		if err := f.publish(out); err != nil {
			return out, err
		}
	}
	end := time.Now().Add(f.whole)
	for _, p := range chosen {
		p.Budget = cmp.Or(f.Budget, p.Budget)
		if run := done[p.Name]; run != nil && len(run.Failures()) == 0 {
			fmt.Fprintf(f.Log, "%s was measured on %s at commit %s; remove %s to measure it again\n", p.Name, run.When.UTC().Format("2 January 15:04"), run.Versions.Commit, f.path(p))
			continue
		}
		if left := time.Until(end); left < p.Budget {
			fmt.Fprintf(f.Log, "%s needs %s, and %s of %s are left: run again to measure it\n", p.Name, p.Budget, left.Round(time.Minute), f.whole)
			continue
		}
		run, err := f.part(ctx, p, done)
		if err != nil {
			return out, err
		}
		done[p.Name] = &run
		out = f.merged(done)
		if err := f.publish(out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// results reads the parts that are done, by name.
func (f fullSet) results() (map[string]*figures.Run, error) {
	done := map[string]*figures.Run{}
	for _, p := range f.all {
		run, err := figures.Read(f.path(p))
		switch {
		case err == nil:
			done[p.Name] = &run
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%s is no result of a part: %w; remove it", f.path(p), err)
		}
	}
	return done, nil
}

func (f fullSet) path(p suite.Part) string { return filepath.Join(f.parts, p.Name+".json") }

// part measures a part and stores its result. Samples of the others say which peers were too slow in smaller cases.
func (f fullSet) part(ctx context.Context, p suite.Part, done map[string]*figures.Run) (figures.Run, error) {
	fmt.Fprintf(f.Log, "%s: at most %s for new cells\n", p.Name, p.Budget)
	o := f.Options
	o.Only, o.Sizes, o.Budget = p.Only, p.Sizes, p.Budget
	for _, other := range f.all {
		if run := done[other.Name]; run != nil && other.Name != p.Name && smaller(other, p) {
			o.Earlier = append(o.Earlier, run.Samples...)
		}
	}
	run, err := f.measure(ctx, o)
	if err == nil {
		err = ctx.Err() // what was interrupted is not done
	}
	if err != nil {
		return run, fmt.Errorf("%s: %w", p.Name, err)
	}
	unfinished := f.path(p) + ".unfinished"
	if err := run.Write(unfinished); err != nil {
		return run, err
	}
	return run, os.Rename(unfinished, f.path(p))
}

// smaller reports whether a part has smaller cases of the same metrics.
func smaller(a, b suite.Part) bool {
	return slices.Equal(a.Only, b.Only) && len(a.Sizes) > 0 && len(b.Sizes) > 0 && slices.Max(a.Sizes) < slices.Max(b.Sizes)
}

// merged joins the parts that are done.
func (f fullSet) merged(done map[string]*figures.Run) figures.Run {
	var parts []figures.Measured
	for _, p := range f.all {
		parts = append(parts, figures.Measured{Name: p.Name, Run: done[p.Name]})
	}
	run := figures.Merge(parts)
	suite.Derive(&run)
	return run
}

// choose returns the parts with the names or metrics of a list, all without one.
func choose(all []suite.Part, list []string) (out []suite.Part, err error) {
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
		if len(list) == 0 || slices.ContainsFunc(list, func(of string) bool { return p.Name == of || slices.Contains(p.Only, of) }) {
			out = append(out, p)
		}
	}
	for _, of := range list {
		if !slices.ContainsFunc(all, func(p suite.Part) bool { return p.Name == of || slices.Contains(p.Only, of) }) {
			return nil, fmt.Errorf("-only: no part of the full set has the name or the metric %q; the parts are %s", of, strings.Join(names, ", "))
		}
	}
	return out, nil
}
