// Package figures defines the metrics of the benchmark, and stores their measurements as JSON and as tables made from
// the JSON alone. Package suite measures, and computes the metrics that follow from others.
package figures

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"slices"
	"time"
)

// Run is the result of one run of the suite.
type Run struct {
	When        time.Time     `json:"when"`
	Set         string        `json:"set"` // quick or full
	Took        float64       `json:"tookSeconds"`
	Cap         float64       `json:"capSeconds"` // of a cell
	Machine     Machine       `json:"machine"`
	Versions    Versions      `json:"versions"`
	Calibration []Calibration `json:"calibration"`
	Samples     []Sample      `json:"samples"`
	Left        []string      `json:"leftOut,omitempty"` // unmeasured cells, with the reason
	Parts       []Part        `json:"parts,omitempty"`   // if the set was measured in parts; Machine and Versions are those of the first
	Missing     []string      `json:"missing,omitempty"` // parts without a result
}

// Part is when, where and of what a part of a set was measured.
type Part struct {
	Name     string    `json:"name"`
	When     time.Time `json:"when"`
	Took     float64   `json:"tookSeconds"`
	Machine  Machine   `json:"machine"`
	Versions Versions  `json:"versions"`
}

// Machine describes the machine of a run.
type Machine struct {
	CPU        string  `json:"cpu"`
	Cores      int     `json:"cores"`
	MemoryMiB  int     `json:"memoryMiB"`
	OS         string  `json:"os"`
	FileSystem string  `json:"fileSystem,omitempty"` // of the data
	LoadBefore float64 `json:"loadBefore"`           // over the minute before the run
	LoadAfter  float64 `json:"loadAfter"`            // over the last minute of the run, which caused it
}

// Versions are the versions of the programs.
type Versions struct {
	Commit string `json:"commit"` // of the repository
	Dirty  bool   `json:"dirty,omitempty"`
	Go     string `json:"go"`
	Git    string `json:"git"`
}

// Calibration is the speed of the machine in a round.
type Calibration struct {
	Part     string  `json:"part,omitempty"` // of the full set
	Round    int     `json:"round"`
	FsyncMS  float64 `json:"fsync4KiBMillis"`  // median
	HashMBs  float64 `json:"sha1ZlibMBperSec"` // one core
	PushMS   float64 `json:"emptyPushMillis"`  // median of commits of one small file to a small repository
	LoadThen float64 `json:"load"`
}

// Sample is the result of one peer in one round.
type Sample struct {
	Metric string             `json:"metric"` // P1 and so on
	Case   string             `json:"case"`
	Peer   string             `json:"peer"`
	Round  int                `json:"round"`
	Values map[string]float64 `json:"values,omitempty"` // by name of a Column
	Over   bool               `json:"over,omitempty"`   // it was stopped at the cap
	Failed string             `json:"failed,omitempty"` // it failed, or its result was wrong
	Note   string             `json:"note,omitempty"`   // the origin of a value that was not measured
}

// Write stores a run as JSON.
func (r Run) Write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Read reads what Write stored.
func Read(path string) (r Run, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}

// Measured is the run of a part of a set; nil while it has none.
type Measured struct {
	Name string
	Run  *Run
}

// Merge joins the runs of the parts of a set, in order, and names the parts without one. At least one part must have a run.
func Merge(parts []Measured) (out Run) {
	for _, p := range parts {
		if p.Run == nil {
			out.Missing = append(out.Missing, p.Name)
			continue
		}
		if len(out.Parts) == 0 {
			out.When, out.Set, out.Cap, out.Machine, out.Versions = p.Run.When, p.Run.Set, p.Run.Cap, p.Run.Machine, p.Run.Versions
		}
		if p.Run.When.Before(out.When) {
			out.When = p.Run.When
		}
		out.Took += p.Run.Took
		out.Parts = append(out.Parts, Part{Name: p.Name, When: p.Run.When, Took: p.Run.Took, Machine: p.Run.Machine, Versions: p.Run.Versions})
		for _, c := range p.Run.Calibration {
			c.Part = p.Name
			out.Calibration = append(out.Calibration, c)
		}
		out.Samples, out.Left = append(out.Samples, p.Run.Samples...), append(out.Left, p.Run.Left...)
	}
	return out
}

// Failures lists the failed samples.
func (r Run) Failures() (out []Sample) {
	for _, s := range r.Samples {
		if s.Failed != "" {
			out = append(out, s)
		}
	}
	return out
}

// peerCase is one peer in one case, in all rounds.
type peerCase struct {
	peer    string
	samples []Sample
}

// values of a column by round.
func (c peerCase) values(name string) map[int]float64 {
	out := map[int]float64{}
	for _, s := range c.samples {
		if v, ok := s.Values[name]; ok && !s.Over && s.Failed == "" {
			out[s.Round] = v
		}
	}
	return out
}

// rounds is the number of rounds that the cell completed.
func (c peerCase) rounds() (n int) {
	seen := map[int]bool{}
	for _, s := range c.samples {
		if !s.Over && s.Failed == "" {
			seen[s.Round] = true
		}
	}
	return len(seen)
}

func (c peerCase) median(name string) float64 {
	var all []float64
	for _, v := range c.values(name) {
		all = append(all, v)
	}
	return Median(all)
}

func (c peerCase) over() bool {
	return slices.ContainsFunc(c.samples, func(s Sample) bool { return s.Over })
}

func (c peerCase) failed() bool {
	return slices.ContainsFunc(c.samples, func(s Sample) bool { return s.Failed != "" })
}

func (c peerCase) note() string {
	for _, s := range c.samples {
		if s.Note != "" {
			return s.Note
		}
	}
	return ""
}

// ratio is the cell's value divided by the base's, in rounds with both.
func (c peerCase) ratio(base peerCase, name string) (median, low, high float64) {
	mine, theirs := c.values(name), base.values(name)
	var all []float64
	for round, v := range mine {
		if b := theirs[round]; b > 0 && v > 0 {
			all = append(all, v/b)
		}
	}
	slices.Sort(all)
	low, high = Interval(all)
	return Median(all), low, high
}

// caseGroup is a case of a metric with all its peers.
type caseGroup struct {
	name  string
	cells []peerCase
}

// groups sorts the samples of a metric by case and peer, in the order of the first round.
func (r Run) groups(metric string) (out []caseGroup) {
	samples := slices.Clone(r.Samples)
	slices.SortStableFunc(samples, func(a, b Sample) int { return cmp.Compare(a.Round, b.Round) })
	for _, s := range samples {
		if s.Metric != metric {
			continue
		}
		g := find(&out, func(g caseGroup) bool { return g.name == s.Case }, caseGroup{name: s.Case})
		c := find(&g.cells, func(c peerCase) bool { return c.peer == s.Peer }, peerCase{peer: s.Peer})
		c.samples = append(c.samples, s)
	}
	return out
}

// find returns the matching element, and adds one if there is none.
func find[T any](all *[]T, is func(T) bool, otherwise T) *T {
	i := slices.IndexFunc(*all, is)
	if i < 0 {
		*all = append(*all, otherwise)
		i = len(*all) - 1
	}
	return &(*all)[i]
}

func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
