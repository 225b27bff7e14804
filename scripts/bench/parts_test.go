package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/suite"
)

// A run that was stopped continues with the first part that is not done; parts with failures are measured again.
func TestARerunMeasuresWhatIsNotDone(t *testing.T) {
	t.Parallel()
	parts := []suite.Part{{Name: "a", Only: []string{"P5"}}, {Name: "b", Only: []string{"P6"}}, {Name: "c", Only: []string{"P7"}, Sizes: []int{2}}}
	s := settings{parts: filepath.Join(t.TempDir(), "parts")}
	s.Log = io.Discard
	stopped := errors.New("stopped")
	var measured []string
	var earlier int
	answers := map[string]error{"P6": stopped}
	failing := map[string]string{"P5": "wrong result"}
	measure := func(_ context.Context, o suite.Options) (figures.Run, error) {
		measured, earlier = append(measured, o.Only[0]), len(o.Earlier)
		sample := figures.Sample{Metric: o.Only[0], Round: 1, Failed: failing[o.Only[0]]}
		return figures.Run{Versions: figures.Versions{Commit: "c" + o.Only[0]}, Took: 1, Calibration: []figures.Calibration{{Round: 1}}, Samples: []figures.Sample{sample}}, answers[o.Only[0]]
	}
	if _, err := measureParts(t.Context(), s, parts, measure); !errors.Is(err, stopped) {
		t.Fatalf("got %v, want that it was stopped", err)
	}
	answers["P6"], failing["P5"] = nil, ""
	run, err := measureParts(t.Context(), s, parts, measure)
	if err != nil || len(run.Samples) != 3 || run.Took != 3 || len(run.Failures()) > 0 {
		t.Fatalf("got %+v, %v", run, err)
	}
	if run.Calibration[1].Part != "b" || len(run.Left) != 1 {
		t.Errorf("got calibrations %+v and %q; want those of the parts, and that their commits differ", run.Calibration, run.Left)
	}
	if want := []string{"P5", "P6", "P5", "P6", "P7"}; !slices.Equal(measured, want) || earlier != 2 {
		t.Errorf("measured %v, with %d earlier samples for the last; want %v and 2", measured, earlier, want)
	}
	if _, err := measureParts(t.Context(), s, parts, measure); err != nil || len(measured) != 5 {
		t.Errorf("a rerun measured %v, %v; want nothing", measured[5:], err)
	}
	if err := os.WriteFile(filepath.Join(s.parts, "b.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := measureParts(t.Context(), s, parts, measure); err == nil {
		t.Error("a damaged result was accepted")
	}
}
