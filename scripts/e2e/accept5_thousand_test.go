package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/scripts/e2e/repo"
)

// deploymentSize is the size of a deployment: the number of clusters, apps, and resources per app.
type deploymentSize struct{ clusters, apps, resources int }

// pairs is the number of apps on clusters.
func (s deploymentSize) pairs() int { return s.clusters * s.apps }

// fleetFigures are the costs of a fleet of Git clusters. Up is the instantiation, change an update with
// another value for one app, down the termination of one deployment on all of them.
type fleetFigures struct {
	deploymentSize
	register         time.Duration // of all clusters, each with a label and a reference
	up, change, down operationFigures
	status, summary  time.Duration // of one complete answer, and of one without the parts
	memory           program.Memory
}

// operationFigures is what one operation costs.
type operationFigures struct {
	answer, done    time.Duration // until 202, and until the status reports the end
	renders         float64
	commits         float64
	writes, reads   float64 // requests to etcd, including status polls
	written         float64 // bytes of keys and values in writes to etcd
	stored          float64 // bytes of file writes in the kernel
	pushed, growth  float64 // bytes of packs pushed, and of the repository on disk
	looks           int     // in status requests
	files, perFiles int     // in the repository afterwards; below one cluster
}

// apps is a deployment of equal apps with different names.
func apps(name string, n, resources int) fleet.Deployment {
	d := fleet.Deployment{Name: name}
	for i := range n {
		d.Apps = append(d.Apps, fleet.App{Chart: fleet.Synthetic(fmt.Sprintf("app%02d", i), resources)})
	}
	return d
}

// measure builds a fleet, and deploys, changes and terminates one deployment on the whole fleet.
func measure(t testing.TB, size deploymentSize) fleetFigures {
	t.Helper()
	s := newStage(t)
	d := apps("bench", size.apps, size.resources)
	out := fleetFigures{deploymentSize: size, register: s.found(size.clusters)}
	s.must("onboard", s.fleet().Onboard(t.Context(), s.dir, d))
	out.up = s.phase(d, "instantiate", v2.StatusInstantiated)
	out.status, out.summary = s.look(d, size)
	s.must("change a value", s.fleet().Revalue(t.Context(), d, d.Apps[0].Chart, "colour: green\n"))
	out.change = s.phase(d, "update", v2.StatusInstantiated)
	out.down = s.phase(d, "terminate", v2.StatusTerminated)
	var err error
	out.memory, err = s.emco.Memory()
	s.must("read memory", err)
	s.sound()
	return out
}

// found registers clusters and opens their logical cloud. It returns the duration of the registration.
func (s *testStage) found(clusters int) time.Duration {
	s.Helper()
	f := s.fleet()
	s.must("register the fleet", f.Found(s.Context(), s.repository()))
	began := time.Now()
	s.must("register clusters", f.Register(s.Context(), clusters))
	took := time.Since(began)
	s.must("open the logical cloud", f.OpenCloud(s.Context()))
	return took
}

// look reads the status with and without its parts, and checks that both are complete.
func (s *testStage) look(d fleet.Deployment, size deploymentSize) (all, summary time.Duration) {
	s.Helper()
	began := time.Now()
	st, err := s.fleet().Status(s.Context(), d.Path(), true)
	s.must("read the status", err)
	all = time.Since(began)
	if len(st.Apps) != size.apps || len(st.Apps[0].Clusters) != size.clusters {
		s.Errorf("the status does not list %d apps on %d clusters", size.apps, size.clusters)
	}
	began = time.Now()
	st, err = s.fleet().Status(s.Context(), d.Path(), false)
	s.must("read the status", err)
	if n := st.DeployedCounts["Applied"]; n != size.pairs()*size.resources {
		s.Errorf("the status counts %d resources as applied, want %d", n, size.pairs()*size.resources)
	}
	return all, time.Since(began)
}

// phase measures one operation.
func (s *testStage) phase(d fleet.Deployment, action, done string) operationFigures {
	s.Helper()
	before, stored, size := s.counters()
	began := time.Now()
	s.must(action, s.fleet().Act(s.Context(), d.Path(), action))
	p := operationFigures{answer: time.Since(began)}
	p.looks = s.follow(d, done)
	p.done = time.Since(began)
	after, storedNow, sizeNow := s.counters()
	rise := func(name string) float64 { return after[name] - before[name] }
	p.renders, p.commits = rise("emco_renders_total"), rise("emco_git_commits_total")
	p.writes = rise(`emco_etcd_operations_total{kind="txn"}`)
	p.reads = rise("emco_etcd_operations_total") - p.writes
	p.written, p.stored = rise(`emco_etcd_bytes_total{kind="txn"}`), float64(storedNow-stored)
	p.pushed, p.growth = rise("emco_git_pushed_bytes_total"), float64(sizeNow-size)
	files := s.tree()
	p.files, p.perFiles = len(files), len(repo.Below(files, "clusters/edge+"+fleet.GitCluster(0)))
	return p
}

// follow polls the status until done returns true, rarely enough not to influence the measurement.
func (s *testStage) follow(d fleet.Deployment, done string) (looks int) {
	s.Helper()
	f := s.fleet()
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Minute)
	defer cancel()
	err := program.Poll(ctx, 100*time.Millisecond, func() error {
		looks++
		st, err := f.Status(ctx, d.Path(), false)
		if err == nil && st.DeployedStatus != done {
			err = errors.New("deployedStatus is " + st.DeployedStatus)
		}
		return err
	})
	s.must(d.Name+" does not become "+done, err)
	return looks
}

// counters reads emco's counters, its stored bytes, and the size of the repository.
func (s *testStage) counters() (metrics map[string]float64, stored, repository int64) {
	s.Helper()
	metrics, err := s.emco.Metrics(s.Context())
	s.must("read metrics", err)
	stored, err = s.emco.Stored()
	s.must("read the stored bytes", err)
	err = filepath.WalkDir(s.bare.Dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			repository += info.Size()
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) { // git may remove its own file during the walk
		s.must("measure the repository", err)
	}
	return metrics, stored, repository
}

func TestAcceptance5Thousand(t *testing.T) {
	const clusters = 1000
	do := steps{TB: t}
	do.next("%d Git clusters in one repository, one deployment of 3 apps of 10 resources", clusters)
	m := measure(t, deploymentSize{clusters: clusters, apps: 3, resources: 10})
	t.Logf("registered in %.1f s, instantiated in %.2f s, terminated in %.2f s", m.register.Seconds(), m.up.done.Seconds(), m.down.done.Seconds())
	t.Logf("renders %.0f, commits %.0f and %.0f, requests to etcd %.0f, files %d", m.up.renders, m.up.commits, m.down.commits, m.up.writes+m.up.reads, m.up.files)
	if m.up.renders != 3 {
		t.Errorf("emco_renders_total rose by %.0f, want 3: one for each class", m.up.renders)
	}
	if m.up.commits < 1 || m.up.commits > 3 || m.down.commits < 1 || m.down.commits > 3 {
		t.Errorf("%.0f commits to instantiate and %.0f to terminate, want 1 to 3", m.up.commits, m.down.commits)
	}
	if m.change.renders != 1 || m.change.commits != 1 {
		t.Errorf("one value of one app: %.0f renders and %.0f commits, want 1 and 1", m.change.renders, m.change.commits)
	}
	if m.up.files != clusters*30+1 || m.up.perFiles != 30 || m.down.files != 1 {
		t.Errorf("%d files in the repository, %d of the first cluster, %d after terminate, want %d, 30 and 1",
			m.up.files, m.up.perFiles, m.down.files, clusters*30+1)
	}
	do.next("done")
}
