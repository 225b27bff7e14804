// Package figures stores the measurements of a benchmark, as JSON and as tables made from the JSON
// alone.
package figures

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
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
	Left        []string      `json:"leftOut,omitempty"` // unmeasured parts of the set, with the reason
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

// Merge joins the runs of the parts of a set, by name of part, in order.
func Merge(names []string, parts []Run) Run {
	out := parts[0]
	out.Took, out.Calibration, out.Samples, out.Left = 0, nil, nil, nil
	commits := map[string]bool{}
	for i, p := range parts {
		if p.When.Before(out.When) {
			out.When = p.When
		}
		out.Took += p.Took
		out.Machine.LoadAfter = p.Machine.LoadAfter
		for _, c := range p.Calibration {
			c.Part = names[i]
			out.Calibration = append(out.Calibration, c)
		}
		out.Samples, out.Left = append(out.Samples, p.Samples...), append(out.Left, p.Left...)
		commits[p.Versions.Commit] = true
		out.Versions.Dirty = out.Versions.Dirty || p.Versions.Dirty
	}
	if len(commits) > 1 {
		out.Left = append(out.Left, "the parts were measured at several commits: "+strings.Join(slices.Sorted(maps.Keys(commits)), ", "))
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
