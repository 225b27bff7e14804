package figures

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func sample(peer string, round int, seconds float64) Sample {
	return Sample{Metric: "P1", Case: "small", Peer: peer, Round: round, Values: map[string]float64{"seconds": seconds}}
}

func TestTablesAreMadeOfTheJSON(t *testing.T) {
	t.Parallel()
	r := Run{Set: "quick", Cap: 60, Samples: []Sample{
		sample(Writer, 1, 1), sample("slow", 1, 10), sample(Writer, 2, 2), sample("slow", 2, 20), sample("slow", 3, 90),
		{Metric: "P1", Case: "small", Peer: "endless", Round: 1, Over: true},
		{Metric: "P1", Case: "small", Peer: "wrong", Round: 1, Values: map[string]float64{"seconds": 0.001}, Failed: "a file is missing"},
	}}
	path := filepath.Join(t.TempDir(), "r.json")
	if err := r.Write(path); err != nil {
		t.Fatal(err)
	}
	again, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	text := again.Markdown("r.json")
	for _, want := range []string{"| slow | 3 | 20 | 10.0 × |", "| ours: writer | 2 | 1.5 |  |", "| endless | 0 | > 60 |", "| wrong | 0 | failed |", "a file is missing"} {
		if !strings.Contains(text, want) {
			t.Errorf("the tables do not contain %q:\n%s", want, text)
		}
	}
	if len(again.Failures()) != 1 {
		t.Errorf("%d failures, want 1", len(again.Failures()))
	}
}

// Peers that wait for a provider's limits are compared with their waiting time.
func TestHostedPeersAreComparedByTheLimits(t *testing.T) {
	t.Parallel()
	hours := func(peer string, h float64) Sample {
		return Sample{Metric: "P1", Case: "hosted", Peer: peer, Round: 1, Values: map[string]float64{"seconds": 1, "virtual": h}}
	}
	r := Run{Samples: []Sample{hours(WriterGitHub, 0.5), hours("other", 5)}, Left: []string{"a part"}}
	text := r.Markdown("r.json")
	for _, want := range []string{"| other | 1 | 1 | 5 | 10.0 × |", "to `" + WriterGitHub + "`", "- a part"} {
		if !strings.Contains(text, want) {
			t.Errorf("the tables do not contain %q:\n%s", want, text)
		}
	}
}

// A ratio compares values of the same round.
func TestRatiosAreThoseOfRounds(t *testing.T) {
	t.Parallel()
	base := peerCase{samples: []Sample{sample("a", 1, 1), sample("a", 2, 100)}}
	other := peerCase{samples: []Sample{sample("b", 1, 2), sample("b", 2, 200), sample("b", 3, 7)}}
	median, low, high := other.ratio(base, "seconds")
	if median != 2 || low != 2 || high != 2 {
		t.Errorf("ratio is %g (%g to %g), want 2", median, low, high)
	}
}

// Figures of a machine that others used say so.
func TestABusyMachineIsNamed(t *testing.T) {
	t.Parallel()
	for load, want := range map[float64]bool{1.9: false, 50: true} {
		r := Run{Machine: Machine{Cores: 2, LoadBefore: load}}
		if got := strings.Contains(r.Markdown("r.json"), "Other programs used the cores"); got != want {
			t.Errorf("with a load of %g on two cores the tables warn: %t, want %t", load, got, want)
		}
	}
}

// The load of a part is not that of other programs in the next one, if that follows at once and the load has not risen.
func TestThePartBeforeIsNoOtherProgram(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	first := Part{Name: "first", When: at, Took: 60, Machine: Machine{Cores: 2, LoadBefore: 0.5, LoadAfter: 2.4}}
	for name, c := range map[string]struct {
		after time.Duration // from the end of the first part
		load  float64
		want  bool
	}{
		"at once":            {0, 2.41, false},
		"at once, and more":  {0, 9, true},
		"after ten minutes":  {10 * time.Minute, 2.41, true},
		"at once, and quiet": {0, 1.9, false},
	} {
		r := Run{Parts: []Part{{Name: "second", When: at.Add(time.Minute + c.after), Machine: Machine{Cores: 2, LoadBefore: c.load}}, first}}
		if got := strings.Contains(r.Markdown("r.json"), "Other programs used the cores"); got != c.want {
			t.Errorf("%s: the tables warn: %t, want %t", name, got, c.want)
		}
	}
}
