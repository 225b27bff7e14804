package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// BenchmarkFleet prints the costs of 100 and 1,000 Git clusters side by side. It measures each fleet
// once: go test -bench Fleet -benchtime 1x.
func BenchmarkFleet(b *testing.B) {
	var all []fleetFigures
	for _, clusters := range []int{100, 1000} {
		b.Run(fmt.Sprintf("clusters=%d", clusters), func(b *testing.B) {
			var m fleetFigures
			for b.Loop() {
				m = measure(b, deploymentSize{clusters: clusters, apps: 3, resources: 10})
			}
			b.ReportMetric(m.up.done.Seconds(), "s/instantiate")
			b.ReportMetric(m.down.done.Seconds(), "s/terminate")
			all = append(all, m)
		})
	}
	if len(all) == 2 {
		fmt.Fprint(os.Stdout, table(all[0], all[1]))
	}
}

// table compares two fleets. Growth is the ratio: the number of clusters grows by the factor in its
// header.
func table(small, big fleetFigures) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\ngit clusters\t%d\t%d\tx %.1f\t\n", small.clusters, big.clusters, float64(big.clusters)/float64(small.clusters))
	for _, r := range rows {
		a, b := r.value(small), r.value(big)
		growth := "-"
		if a > 0 {
			growth = fmt.Sprintf("x %.1f", b/a)
		}
		fmt.Fprintf(w, "%s\t"+r.form+"\t"+r.form+"\t%s\t\n", r.name, a, b, growth)
	}
	w.Flush() // to memory
	return out.String() + "\nrequests to etcd include those of status polls; 3 apps of 10 resources each\n"
}

const mib = 1 << 20

var rows = []struct {
	name, form string
	value      func(fleetFigures) float64
}{
	{"registration, s", "%.2f", func(f fleetFigures) float64 { return f.register.Seconds() }},
	{"a cluster with label and reference, ms", "%.2f", func(f fleetFigures) float64 { return ms(f.register) / float64(f.clusters) }},
	{"instantiate: answer 202, ms", "%.1f", func(f fleetFigures) float64 { return ms(f.up.answer) }},
	{"instantiate: until Instantiated, s", "%.2f", func(f fleetFigures) float64 { return f.up.done.Seconds() }},
	{"instantiate: renders", "%.0f", func(f fleetFigures) float64 { return f.up.renders }},
	{"instantiate: commits", "%.0f", func(f fleetFigures) float64 { return f.up.commits }},
	{"instantiate: writes to etcd", "%.0f", func(f fleetFigures) float64 { return f.up.writes }},
	{"instantiate: reads of etcd", "%.0f", func(f fleetFigures) float64 { return f.up.reads }},
	{"instantiate: bytes in writes to etcd, KiB", "%.0f", func(f fleetFigures) float64 { return f.up.written / 1024 }},
	{"instantiate: bytes written to storage, MiB", "%.1f", func(f fleetFigures) float64 { return f.up.stored / mib }},
	{"instantiate: pushed to Git, KiB", "%.0f", func(f fleetFigures) float64 { return f.up.pushed / 1024 }},
	{"instantiate: growth of the repository, KiB", "%.0f", func(f fleetFigures) float64 { return f.up.growth / 1024 }},
	{"instantiate: files in the repository", "%.0f", func(f fleetFigures) float64 { return float64(f.up.files) }},
	{"instantiate: polls of the status", "%.0f", func(f fleetFigures) float64 { return float64(f.up.looks) }},
	{"one status of everything, ms", "%.1f", func(f fleetFigures) float64 { return ms(f.status) }},
	{"one status without its parts, ms", "%.1f", func(f fleetFigures) float64 { return ms(f.summary) }},
	{"update of one value: answer 202, ms", "%.1f", func(f fleetFigures) float64 { return ms(f.change.answer) }},
	{"update of one value: until Instantiated, s", "%.2f", func(f fleetFigures) float64 { return f.change.done.Seconds() }},
	{"update of one value: renders", "%.0f", func(f fleetFigures) float64 { return f.change.renders }},
	{"update of one value: commits", "%.0f", func(f fleetFigures) float64 { return f.change.commits }},
	{"update of one value: writes to etcd", "%.0f", func(f fleetFigures) float64 { return f.change.writes }},
	{"update of one value: reads of etcd", "%.0f", func(f fleetFigures) float64 { return f.change.reads }},
	{"update of one value: pushed to Git, KiB", "%.0f", func(f fleetFigures) float64 { return f.change.pushed / 1024 }},
	{"terminate: answer 202, ms", "%.1f", func(f fleetFigures) float64 { return ms(f.down.answer) }},
	{"terminate: until Terminated, s", "%.2f", func(f fleetFigures) float64 { return f.down.done.Seconds() }},
	{"terminate: commits", "%.0f", func(f fleetFigures) float64 { return f.down.commits }},
	{"terminate: writes to etcd", "%.0f", func(f fleetFigures) float64 { return f.down.writes }},
	{"terminate: reads of etcd", "%.0f", func(f fleetFigures) float64 { return f.down.reads }},
	{"terminate: bytes in writes to etcd, KiB", "%.0f", func(f fleetFigures) float64 { return f.down.written / 1024 }},
	{"terminate: bytes written to storage, MiB", "%.1f", func(f fleetFigures) float64 { return f.down.stored / mib }},
	{"terminate: growth of the repository, KiB", "%.0f", func(f fleetFigures) float64 { return f.down.growth / 1024 }},
	{"resident memory at the end, MiB", "%.0f", func(f fleetFigures) float64 { return float64(f.memory.Resident) / mib }},
	{"most resident memory, MiB", "%.0f", func(f fleetFigures) float64 { return float64(f.memory.Peak) / mib }},
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
