package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/suite"
)

// setOf is a full set of three parts, whose measurement is recorded.
func setOf(t *testing.T, measure measureFunc) (f fullSet, published *[]figures.Run) {
	t.Helper()
	f = fullSet{measure: measure, all: []suite.Part{{Name: "a", Only: []string{"P5"}}, {Name: "b", Only: []string{"P6"}}, {Name: "c", Only: []string{"P7"}, Sizes: []int{2}}}}
	f.parts, f.whole, f.Log = filepath.Join(t.TempDir(), "parts"), time.Hour, io.Discard
	published = &[]figures.Run{}
	f.publish = func(run figures.Run) error {
		*published = append(*published, run)
		return nil
	}
	return f, published
}

// sampled is a run with one sample of the first metric that is asked for.
func sampled(o suite.Options) figures.Run {
	return figures.Run{
		When: time.Unix(1, 0), Took: 1, Versions: figures.Versions{Commit: "c" + o.Only[0]}, Machine: figures.Machine{Cores: 2},
		Calibration: []figures.Calibration{{Round: 1}}, Samples: []figures.Sample{{Metric: o.Only[0], Round: 1}},
	}
}

// A run that was stopped continues with the first part that is not done; parts with failures are measured again.
func TestARerunMeasuresWhatIsNotDone(t *testing.T) {
	t.Parallel()
	stopped := errors.New("stopped")
	var measured []string
	answers := map[string]error{"P6": stopped}
	failing := map[string]string{"P5": "wrong result"}
	f, _ := setOf(t, func(_ context.Context, o suite.Options) (figures.Run, error) {
		measured = append(measured, o.Only[0])
		run := sampled(o)
		run.Samples[0].Failed = failing[o.Only[0]]
		return run, answers[o.Only[0]]
	})
	if _, err := f.run(t.Context()); !errors.Is(err, stopped) {
		t.Fatalf("got %v, want that it was stopped", err)
	}
	answers["P6"], failing["P5"] = nil, ""
	run, err := f.run(t.Context())
	if err != nil || len(run.Samples) != 3 || run.Took != 3 || len(run.Failures()) > 0 || len(run.Missing) > 0 {
		t.Fatalf("got %+v, %v", run, err)
	}
	if run.Calibration[1].Part != "b" || run.Parts[2].Versions.Commit != "cP7" {
		t.Errorf("got calibrations %+v and parts %+v; want those of each part", run.Calibration, run.Parts)
	}
	if want := []string{"P5", "P6", "P5", "P6", "P7"}; !slices.Equal(measured, want) {
		t.Errorf("measured %v; want %v", measured, want)
	}
	if run, err := f.run(t.Context()); err != nil || len(measured) != 5 || len(run.Samples) != 3 {
		t.Errorf("a rerun measured %v, and returned %+v, %v; want nothing new", measured[5:], run, err)
	}
	if err := os.WriteFile(filepath.Join(f.parts, "b.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.run(t.Context()); err == nil {
		t.Error("a damaged result was accepted")
	}
}

// A part that is interrupted has no result, also if its measurement returns what it has: a rerun measures it.
func TestAnInterruptedPartIsNotDone(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	var measured []string
	f, published := setOf(t, func(_ context.Context, o suite.Options) (figures.Run, error) {
		if measured = append(measured, o.Only[0]); o.Only[0] == "P6" {
			interrupt()
		}
		return sampled(o), nil
	})
	if _, err := f.run(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "b: ") {
		t.Errorf("got %v, want that b was interrupted", err)
	}
	if last := (*published)[len(*published)-1]; !slices.Equal(measured, []string{"P5", "P6"}) || !slices.Equal(last.Missing, []string{"b", "c"}) {
		t.Errorf("measured %v, and published without %v; want that b has no result", measured, last.Missing)
	}
	if files, err := os.ReadDir(f.parts); err != nil || len(files) != 1 {
		t.Errorf("the folder of results has %v, %v; want that of a alone", files, err)
	}
	if run, err := f.run(t.Context()); err != nil || len(run.Missing) > 0 || len(measured) != 4 {
		t.Errorf("the rerun measured %v, and missing are %v, %v", measured, run.Missing, err)
	}
}

// After each part the tables have all parts that are done, and name the others.
func TestEachPartIsPublishedWhenItIsDone(t *testing.T) {
	t.Parallel()
	stopped := errors.New("stopped")
	f, published := setOf(t, func(_ context.Context, o suite.Options) (figures.Run, error) {
		if o.Only[0] == "P7" {
			return figures.Run{}, stopped
		}
		return sampled(o), nil
	})
	if _, err := f.run(t.Context()); !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	var missing [][]string
	for _, run := range *published {
		missing = append(missing, run.Missing)
	}
	if len(missing) != 2 || !slices.Equal(missing[0], []string{"b", "c"}) || !slices.Equal(missing[1], []string{"c"}) {
		t.Fatalf("the published runs lack %v; want b and c, then c", missing)
	}
	text := (*published)[1].Markdown("full.json")
	for _, want := range []string{"**Not measured yet: c.**", "| a | 1 January 1970 00:00 | 1 | cP5 | 2 cores", "| b | 1 January 1970 00:00 | 1 | cP6 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the tables do not contain %q:\n%s", want, text)
		}
	}
}

// Parts are chosen by name or by metric, and keep the results of others.
func TestPartsAreChosen(t *testing.T) {
	t.Parallel()
	var measured []string
	f, published := setOf(t, func(_ context.Context, o suite.Options) (figures.Run, error) {
		measured = append(measured, o.Only[0])
		return sampled(o), nil
	})
	for _, only := range []string{"c", "P6"} {
		f.Only = []string{only}
		if _, err := f.run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	last := (*published)[len(*published)-1]
	if !slices.Equal(measured, []string{"P7", "P6"}) || !slices.Equal(last.Missing, []string{"a"}) {
		t.Errorf("measured %v, and missing are %v; want P7 and P6, and a", measured, last.Missing)
	}
	f.Only = []string{"P99"}
	if _, err := f.run(t.Context()); err == nil || !strings.Contains(err.Error(), "the parts are a, b, c") {
		t.Errorf("got %v, want an error with the names of the parts", err)
	}
	if _, err := read([]string{"-set", "full", "-only", "P17-00099"}, io.Discard); err == nil {
		t.Error("a part that does not exist: no error of usage")
	}
	if s, err := read([]string{"-set", "full", "-only", "P17-00003,P7"}, io.Discard); err != nil || !s.inParts() {
		t.Errorf("got %+v, %v; want that two parts run", s, err)
	}
}

// Samples of smaller fleets say which peers are too slow for a larger one; those of other parts say nothing.
func TestAPartKnowsItsSmallerFleets(t *testing.T) {
	t.Parallel()
	earlier := map[int]int{}
	f, _ := setOf(t, func(_ context.Context, o suite.Options) (figures.Run, error) {
		earlier[o.Sizes[0]] = len(o.Earlier)
		return sampled(o), nil
	})
	f.all = nil
	for _, of := range []struct {
		name, metric string
		size         int
	}{{"p1-10", "P1", 10}, {"p17-3", "P17", 3}, {"p1-2", "P1", 2}, {"p1-100", "P1", 100}} {
		f.all = append(f.all, suite.Part{Name: of.name, Only: []string{of.metric}, Sizes: []int{of.size}})
	}
	if _, err := f.run(t.Context()); err != nil || earlier[100] != 2 || earlier[2] != 0 || earlier[3] != 0 {
		t.Errorf("earlier samples by size are %v, %v; want two for 100 clusters alone", earlier, err)
	}
}

// No part begins that would not end within the whole time; a rerun measures it.
func TestTheFullSetEndsInItsTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var measured []string
		f, published := setOf(t, func(_ context.Context, o suite.Options) (figures.Run, error) {
			measured = append(measured, o.Only[0])
			time.Sleep(o.Budget + time.Minute) // of the bubble's clock: the last cell ends later
			return sampled(o), nil
		})
		f.parts = dir
		for i, minutes := range []int{20, 39, 30} {
			f.all[i].Budget = time.Duration(minutes) * time.Minute
		}
		began := time.Now()
		run, err := f.run(t.Context())
		if err != nil || !slices.Equal(measured, []string{"P5", "P6"}) || !slices.Equal(run.Missing, []string{"c"}) || time.Since(began) > f.whole+time.Minute {
			t.Errorf("after %s it has measured %v, and missing are %v, %v", time.Since(began), measured, run.Missing, err)
		}
		if _, err := f.run(t.Context()); err != nil || !slices.Equal(measured, []string{"P5", "P6", "P7"}) || len(*published) != 4 {
			t.Errorf("the rerun measured %v, %v", measured, err)
		}
	})
}
