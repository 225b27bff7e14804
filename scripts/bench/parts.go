package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/suite"
)

// measureFunc runs the suite; suite.Run does.
type measureFunc func(context.Context, suite.Options) (figures.Run, error)

// measureParts measures the parts of the full set, and returns all of them as one run. Each part writes a file
// when it is done, so a run that was stopped continues with the first part without one. A part with failed samples is
// measured again.
func measureParts(ctx context.Context, s settings, parts []suite.Part, measure measureFunc) (figures.Run, error) {
	if err := os.MkdirAll(s.parts, 0o755); err != nil {
		return figures.Run{}, err
	}
	var names []string
	var runs []figures.Run
	for _, p := range parts {
		path := filepath.Join(s.parts, p.Name+".json")
		run, err := figures.Read(path)
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && len(run.Failures()) > 0:
			run, err = measurePart(ctx, s, p, path, measure)
		case err == nil:
			fmt.Fprintf(s.Log, "%s was measured on %s at commit %s; remove %s to measure it again\n", p.Name, run.When.UTC().Format("2 January 15:04"), run.Versions.Commit, path)
		default:
			err = fmt.Errorf("%s is no result of a part: %w; remove it", path, err)
		}
		if err != nil {
			return figures.Run{}, err
		}
		names, runs = append(names, p.Name), append(runs, run)
		s.Earlier = append(s.Earlier, run.Samples...)
	}
	run := figures.Merge(names, runs)
	suite.Derive(&run)
	return run, nil
}

func measurePart(ctx context.Context, s settings, p suite.Part, path string, measure measureFunc) (figures.Run, error) {
	fmt.Fprintf(s.Log, "%s: at most %s for new cells\n", p.Name, p.Budget)
	o := s.Options
	o.Only, o.Sizes = p.Only, p.Sizes
	if o.Budget == 0 {
		o.Budget = p.Budget
	}
	run, err := measure(ctx, o)
	if err != nil {
		return run, fmt.Errorf("%s: %w", p.Name, err)
	}
	unfinished := path + ".unfinished"
	if err := run.Write(unfinished); err != nil {
		return run, err
	}
	return run, os.Rename(unfinished, path)
}
