package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// large is a deployment that costs EMCO 5.5 million calls of its store.
var large = deploymentSize{clusters: 1000, apps: 10, resources: 20}

// storeCalls is the limit for each operation on it.
const storeCalls = 2000

// A large deployment costs store calls for differences, not for each resource on each cluster, and one
// commit per repository.
func TestConformance13LargeDeploymentsCostFewCalls(t *testing.T) {
	m := measure(t, large)
	for name, p := range map[string]operationFigures{"instantiate": m.up, "update of one value": m.change, "terminate": m.down} {
		t.Logf("%s: %.0f reads and %.0f writes, %.0f commits, answered in %.0f ms, done in %.1f s",
			name, p.reads, p.writes, p.commits, ms(p.answer), p.done.Seconds())
		if calls := p.reads + p.writes; calls >= storeCalls {
			t.Errorf("%s: %.0f calls of etcd, want fewer than %d", name, calls, storeCalls)
		}
		if p.commits > 3 {
			t.Errorf("%s: %.0f commits to one repository", name, p.commits)
		}
	}
}

// BenchmarkLarge prints the costs of the large deployment next to EMCO's.
func BenchmarkLarge(b *testing.B) {
	for b.Loop() {
		m := measure(b, large)
		fmt.Fprint(os.Stdout, largeTable(m))
		b.ReportMetric(m.up.done.Seconds(), "s/instantiate")
	}
}

// emcoCalls are EMCO's calls of its store, counted by running its own code on a counting store: reads
// and writes of an instantiation and of a termination.
func emcoCalls(s deploymentSize) (instantiate, terminate float64) {
	a, ac, acr := float64(s.apps), float64(s.pairs()), float64(s.pairs()*s.resources)
	instantiate = 65 + 7*a + 9*ac + 20*acr + 17 + a + 4*ac + 7*acr
	terminate = 62 + 4*a + 8*ac + 11*acr + 9 + ac + 3*acr
	return instantiate, terminate
}

func largeTable(m fleetFigures) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%d apps x %d clusters x %d resources\tinstantiate\tupdate of one value\tterminate\t\n", m.apps, m.clusters, m.resources)
	row := func(name, form string, value func(operationFigures) float64) {
		fmt.Fprintf(w, "%s\t"+form+"\t"+form+"\t"+form+"\t\n", name, value(m.up), value(m.change), value(m.down))
	}
	calls := func(p operationFigures) float64 { return p.reads + p.writes }
	row("answer, ms", "%.0f", func(p operationFigures) float64 { return ms(p.answer) })
	row("done, s", "%.2f", func(p operationFigures) float64 { return p.done.Seconds() })
	row("calls of etcd", "%.0f", calls)
	row("commits", "%.0f", func(p operationFigures) float64 { return p.commits })
	row("charts rendered", "%.0f", func(p operationFigures) float64 { return p.renders })
	row("pushed to Git, KiB", "%.0f", func(p operationFigures) float64 { return p.pushed / 1024 })
	up, down := emcoCalls(m.deploymentSize)
	fmt.Fprintf(w, "EMCO: calls of etcd\t%.0f\t-\t%.0f\t\n", up, down)
	fmt.Fprintf(w, "EMCO's calls to ours\t%.0f : 1\t-\t%.0f : 1\t\n", up/calls(m.up), down/calls(m.down))
	w.Flush() // to memory
	return out.String() + fmt.Sprintf("\nstatus of %d pairs: %.0f ms without its parts, %.0f ms with all resources; most resident memory %d MiB\n",
		m.pairs(), ms(m.summary), ms(m.status), m.memory.Peak/mib)
}

// BenchmarkRestart prints the time from the program's start until it is ready, with 50,000 pairs.
func BenchmarkRestart(b *testing.B) {
	s := newStage(b)
	size := deploymentSize{clusters: 1000, apps: 50, resources: 2}
	s.found(size.clusters)
	d := apps("many", size.apps, size.resources)
	s.must("onboard", s.fleet().Onboard(b.Context(), s.dir, d))
	s.phase(d, "instantiate", v2.StatusInstantiated)
	head := s.head()
	for b.Loop() {
		s.must("stop emco", s.emco.Stop())
		began := time.Now()
		s.start()
		took := time.Since(began)
		memory, err := s.emco.Memory()
		s.must("read memory", err)
		all, summary := s.look(d, size)
		fmt.Fprintf(os.Stdout, "\nrestart with %d pairs: ready after %.1f s; status of all: %.0f ms without its parts, %.0f ms with all resources; resident memory %d MiB\n",
			size.pairs(), took.Seconds(), ms(summary), ms(all), memory.Resident/mib)
		b.ReportMetric(took.Seconds(), "s/restart")
	}
	if now := s.head(); now != head {
		b.Errorf("the restart made commits: %s, before %s", now, head)
	}
}
