// Command bench compares the orchestrator with other ways to bring desired state to Git or to clusters, and
// measures the costs of its program. It writes JSON, and tables made from it.
//
//	bench -set quick     what `make bench` runs: at most ten minutes
//	bench -set full      what `make bench-full` runs: three hours, in parts
//	bench -set services  what `make bench-services` runs: one process beside several, a quarter of an hour
//	bench -tables FILE   only makes the tables of a JSON file
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/suite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stderr))
}

// settings are the flags.
type settings struct {
	suite.Options
	set, out, tables, parts string
	whole                   time.Duration // of the full set
}

// run returns the exit code: 0 on success, 1 if a sample failed or nothing could be measured, 2 after
// wrong usage.
func run(ctx context.Context, args []string, log io.Writer) int {
	s, err := read(args, log)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(log, "bench:", err)
		return 2
	}
	if s.tables != "" {
		err = tables(s.tables)
	} else {
		err = measure(ctx, s)
	}
	if err != nil {
		fmt.Fprintln(log, "bench:", err)
		return 1
	}
	return 0
}

func read(args []string, log io.Writer) (s settings, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(log)
	f.StringVar(&s.set, "set", "quick", "quick, full or services")
	f.StringVar(&s.out, "out", ".", "folder for SET.json and SET.md")
	f.StringVar(&s.tables, "tables", "", "make the tables of this JSON file, and measure nothing")
	f.StringVar(&s.parts, "parts", "", "folder for the results of the parts of the full set; finished parts are not measured again; default: a folder in that of -out")
	f.StringVar(&s.Bin, "bin", "../../bin", "folder of the built programs")
	f.StringVar(&s.Dir, "dir", "", "folder for data, on the measured disk; default: the system's temporary folder")
	f.IntVar(&s.Rounds, "rounds", 3, "number of measurements of each cell, if time allows")
	f.DurationVar(&s.Cap, "cap", 0, "time limit of a cell; half a minute for quick, two minutes for full")
	f.DurationVar(&s.Budget, "budget", 0, "no cell starts after this time; 9 minutes for quick, 15 for services; in the full set that of each part, which has its own without this")
	f.DurationVar(&s.whole, "whole", suite.Whole, "no part of the full set starts if its budget does not fit into this time")
	only := f.String("only", "", "metrics, such as P1,P5; in the full set also parts, such as P17-00030; default: all")
	sizes := f.String("sizes", "", "fleets in clusters, such as 10,100; the full set then does not run in parts; default: those of the set")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if !slices.Contains([]string{"quick", "full", "services"}, s.set) {
		return s, fmt.Errorf("-set is %q, want quick, full or services", s.set)
	}
	s.Full, s.Services, s.Log = s.set == "full", s.set == "services", log
	if *only != "" {
		s.Only = strings.Split(*only, ",")
	}
	if s.Sizes, err = numbers(*sizes); err != nil {
		return s, err
	}
	if s.inParts() {
		if _, err := choose(suite.FullParts(), s.Only); err != nil {
			return s, err
		}
	}
	s.parts = cmp.Or(s.parts, filepath.Join(s.out, "full-parts"))
	limit := 30 * time.Second
	switch {
	case s.inParts():
		limit = 2 * time.Minute
	case s.Full:
		s.Budget, limit = cmp.Or(s.Budget, 3*time.Hour), 2*time.Minute
	case s.Services:
		s.Budget, limit = cmp.Or(s.Budget, 15*time.Minute), 2*time.Minute
	default:
		s.Budget = cmp.Or(s.Budget, 9*time.Minute)
	}
	s.Cap = cmp.Or(s.Cap, limit)
	if s.Dir == "" {
		s.Dir = os.TempDir()
	}
	return s, absolute(&s.Bin, &s.Dir)
}

func absolute(paths ...*string) (err error) {
	for _, p := range paths {
		if *p, err = filepath.Abs(*p); err != nil {
			return err
		}
	}
	return nil
}

func numbers(list string) (out []int, err error) {
	if list == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-sizes: %q is no number of clusters", text)
		}
		out = append(out, n)
	}
	return out, nil
}

// inParts reports whether the full set runs, part by part.
func (s settings) inParts() bool { return s.Full && len(s.Sizes) == 0 }

func measure(ctx context.Context, s settings) error {
	for _, name := range []string{"emco", "emcoctl"} {
		if _, err := os.Stat(filepath.Join(s.Bin, name)); err != nil {
			return fmt.Errorf("%w: run make build first", err)
		}
	}
	publish := func(run figures.Run) error {
		path := filepath.Join(s.out, s.set+".json")
		if err := run.Write(path); err != nil {
			return err
		}
		return tables(path)
	}
	var run figures.Run
	var err error
	if s.inParts() {
		run, err = fullSet{s, suite.FullParts(), suite.Run, publish}.run(ctx)
	} else if run, err = suite.Run(ctx, s.Options); err == nil {
		err = publish(run)
	}
	if err != nil {
		return err
	}
	if failed := run.Failures(); len(failed) > 0 {
		return fmt.Errorf("%d samples failed; the tables list them at the end", len(failed))
	}
	return nil
}

// tables writes the Markdown file next to a JSON file.
func tables(path string) error {
	run, err := figures.Read(path)
	if err != nil {
		return err
	}
	text := run.Markdown(filepath.Base(path))
	return os.WriteFile(strings.TrimSuffix(path, ".json")+".md", []byte(text), 0o644)
}
