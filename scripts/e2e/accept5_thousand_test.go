package e2e

import (
	"context"
	"errors"
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

// figures are what a fleet of Git clusters costs. Up is the instantiation, down the
// termination of one deployment on all of them.
type figures struct {
	clusters int
	register time.Duration // of all clusters with a label and a reference each
	up, down phase
	status   time.Duration // of one answer about everything
	memory   program.Memory
}

// phase is what one operation costs.
type phase struct {
	answer, done    time.Duration // until 202, and until the status says that it is done
	renders         float64
	commits         float64
	writes, reads   float64 // requests to etcd, those for looks at the status included
	written         float64 // bytes of keys and values in writes to etcd
	stored          float64 // bytes that the kernel was made to write
	pushed, growth  float64 // bytes of packs pushed, and of the repository on disk
	looks           int     // at the status
	files, perFiles int     // in the repository afterwards; below one cluster
}

// measure builds a fleet and deploys 3 apps of 10 resources on all of its clusters.
func measure(t testing.TB, clusters int) figures {
	t.Helper()
	s := newStage(t)
	f, d := s.fleet(), threeApps("bench", 10)
	s.must("found the fleet", f.Found(t.Context(), s.repository()))
	out := figures{clusters: clusters}
	began := time.Now()
	s.must("register clusters", f.Register(t.Context(), clusters))
	out.register = time.Since(began)
	s.must("open the logical cloud", f.OpenCloud(t.Context()))
	s.must("onboard", f.Onboard(t.Context(), s.dir, d))
	out.up = s.phase(d, "instantiate", v2.StatusInstantiated)
	began = time.Now()
	st, err := f.Status(t.Context(), d.Path(), true)
	s.must("read the status", err)
	out.status = time.Since(began)
	if len(st.Apps) != 3 || len(st.Apps[0].Clusters) != clusters {
		t.Errorf("the status does not list 3 apps on %d clusters", clusters)
	}
	out.down = s.phase(d, "terminate", v2.StatusTerminated)
	out.memory, err = s.emco.Memory()
	s.must("read memory", err)
	s.sound()
	return out
}

// phase measures one operation.
func (s *stage) phase(d fleet.Deployment, action, done string) phase {
	s.Helper()
	before, stored, size := s.counters()
	began := time.Now()
	s.must(action, s.fleet().Act(s.Context(), d.Path(), action))
	p := phase{answer: time.Since(began)}
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

// follow looks at the status until it says done, seldom enough not to be what is measured.
func (s *stage) follow(d fleet.Deployment, done string) (looks int) {
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

// counters reads what emco has counted, what it has stored, and how big the repository is.
func (s *stage) counters() (metrics map[string]float64, stored, repository int64) {
	s.Helper()
	metrics, err := s.emco.Metrics(s.Context())
	s.must("read metrics", err)
	stored, err = s.emco.Stored()
	s.must("read what was stored", err)
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
	if err != nil && !os.IsNotExist(err) { // git may remove a file of its own meanwhile
		s.must("measure the repository", err)
	}
	return metrics, stored, repository
}

func TestAcceptance5Thousand(t *testing.T) {
	const clusters = 1000
	do := steps{TB: t}
	do.next("%d Git clusters in one repository, one deployment of 3 apps of 10 resources", clusters)
	m := measure(t, clusters)
	t.Logf("registered in %.1f s, instantiated in %.2f s, terminated in %.2f s", m.register.Seconds(), m.up.done.Seconds(), m.down.done.Seconds())
	t.Logf("renders %.0f, commits %.0f and %.0f, requests to etcd %.0f, files %d", m.up.renders, m.up.commits, m.down.commits, m.up.writes+m.up.reads, m.up.files)
	if m.up.renders != 3 {
		t.Errorf("emco_renders_total rose by %.0f, want 3: one for each class", m.up.renders)
	}
	if m.up.commits < 1 || m.up.commits > 3 || m.down.commits < 1 || m.down.commits > 3 {
		t.Errorf("%.0f commits to instantiate and %.0f to terminate, want 1 to 3", m.up.commits, m.down.commits)
	}
	if m.up.files != clusters*30+1 || m.up.perFiles != 30 || m.down.files != 1 {
		t.Errorf("%d files in the repository, %d of the first cluster, %d after terminate, want %d, 30 and 1",
			m.up.files, m.up.perFiles, m.down.files, clusters*30+1)
	}
	do.next("done")
}
