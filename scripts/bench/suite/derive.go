package suite

import (
	"fmt"
	"slices"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
)

// Derive computes samples from the other samples of a run: slopes, memory per cluster, and distances to the
// floor. It replaces those that the run has.
func Derive(run *figures.Run) {
	d := derivation{run}
	run.Samples = slices.DeleteFunc(run.Samples, func(c figures.Sample) bool {
		_, slope := c.Values["perCluster"]
		return c.Metric == "P4" || c.Metric == "P19" || slope
	})
	d.distances()
	d.slopes()
	d.memory()
}

// derivation adds derived samples to a run.
type derivation struct{ run *figures.Run }

func (d derivation) add(c figures.Sample) {
	c.Round = max(1, c.Round)
	d.run.Samples = append(d.run.Samples, c)
}

// distances compare the writer and the program with the floor of the same round: P19.
func (d derivation) distances() {
	type of struct {
		metric, name string
		round        int
	}
	floor := map[of]figures.Sample{}
	usable := func(c figures.Sample) bool {
		return slices.Contains([]string{"P1", "P2", "P3"}, c.Metric) && !c.Over && c.Failed == "" && c.Values["seconds"] > 0
	}
	for _, c := range d.run.Samples {
		if usable(c) && c.Peer == figures.Floor {
			floor[of{c.Metric, c.Case, c.Round}] = c
		}
	}
	for _, c := range slices.Clone(d.run.Samples) {
		low, known := floor[of{c.Metric, c.Case, c.Round}]
		if !known || !usable(c) || c.Peer != figures.Writer && c.Peer != figures.Process {
			continue
		}
		values := map[string]float64{"times": c.Values["seconds"] / low.Values["seconds"]}
		if low.Values["cpu"] > 0 {
			values["timesCPU"] = c.Values["cpu"] / low.Values["cpu"]
		}
		d.add(figures.Sample{Metric: "P19", Case: c.Metric + ", " + c.Case, Peer: c.Peer, Round: c.Round, Values: values})
	}
}

// slopes is the growth of times with the number of files: P4.
func (d derivation) slopes() {
	at := map[string]map[string]map[float64][]float64{} // metric, peer, files
	for _, c := range d.run.Samples {
		var clusters int
		if n, _ := fmt.Sscanf(c.Case, "unshared, %d clusters", &clusters); n != 1 || c.Over || c.Failed != "" || c.Values["seconds"] <= 0 {
			continue
		}
		if at[c.Metric] == nil {
			at[c.Metric] = map[string]map[float64][]float64{}
		}
		if at[c.Metric][c.Peer] == nil {
			at[c.Metric][c.Peer] = map[float64][]float64{}
		}
		files := float64(clusters * apps * resources)
		at[c.Metric][c.Peer][files] = append(at[c.Metric][c.Peer][files], c.Values["seconds"])
	}
	names := map[string]string{"P3": "one file changed, over the files on the branch", "P1": "all files new, over their number"}
	for _, metric := range []string{"P3", "P1"} {
		for peer, points := range at[metric] {
			var x, y []float64
			for files, seconds := range points {
				x, y = append(x, files), append(y, figures.Median(seconds))
			}
			if len(x) > 1 {
				d.add(figures.Sample{Metric: "P4", Case: names[metric], Peer: peer, Values: map[string]float64{"slope": figures.Slope(x, y)}, Note: fmt.Sprintf("%.0f to %.0f files", slices.Min(x), slices.Max(x))})
			}
		}
	}
}

// memory is the additional memory per cluster: P9.
func (d derivation) memory() {
	peak := map[int][]float64{}
	for _, c := range d.run.Samples {
		var clusters int
		if n, _ := fmt.Sscanf(c.Case, "shared, %d clusters", &clusters); n == 1 && c.Metric == "P9" {
			peak[clusters] = append(peak[clusters], c.Values["rss"])
		}
	}
	if len(peak) < 2 {
		return
	}
	sizes := make([]int, 0, len(peak))
	for n := range peak {
		sizes = append(sizes, n)
	}
	low, high := slices.Min(sizes), slices.Max(sizes)
	more := (figures.Median(peak[high]) - figures.Median(peak[low])) * 1024 / float64(high-low)
	d.add(figures.Sample{Metric: "P9", Case: fmt.Sprintf("from %d to %d clusters", low, high), Peer: figures.Process, Values: map[string]float64{"perCluster": more}})
}
