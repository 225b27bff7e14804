package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/git/gittest"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
)

const (
	statusRepositories = 300
	statusInterval     = 10 * time.Second // between two reads of a repository
	statusShards       = 16
)

// statusStage is processes that share status repositories, behind a server that counts how often each is read.
type statusStage struct {
	*testStage
	etcd  string
	bares []gittest.Bare
	front *httptest.Server
	reads atomic.Int64
}

// S-07: three processes read 300 status repositories as often as one does, and each of them answers the same about every
// agent. When a process is killed or ends, the others read its repositories; no report is lost or counted twice.
func TestS07ProcessesShareStatusRepositories(t *testing.T) {
	do := steps{TB: t}
	do.next("%d bare repositories with a report each, one etcd, one process", statusRepositories)
	base, etcd := newStageOnEtcd(t)
	s := &statusStage{testStage: base, etcd: etcd}
	s.makeRepositories()
	s.report(1)
	one := s.process("one")
	f, err := fleet.Open(one.URL())
	s.must("open the API", err)
	s.must("register the fleet", f.Found(t.Context(), s.repository()))
	for i := range statusRepositories {
		s.must("register", f.RegisterIn(t.Context(), s.cluster(i), fleet.Repository{URL: s.front.URL + "/" + s.cluster(i) + ".git", User: writer, Token: s.writeToken}))
	}
	s.reported(1, one)
	limit := int64(statusRepositories) * (2 + 1) // a window of two intervals may begin just before a read
	alone := s.window()

	do.next("two more processes share the repositories")
	two, three := s.process("two"), s.process("three")
	s.works(one, two, three)
	together := s.window()
	t.Logf("    %d repositories in %s: %d reads by one process, %d by three", statusRepositories, 2*statusInterval, alone, together)
	if together > limit || alone > limit || together < statusRepositories {
		t.Errorf("%d reads by one process and %d by three, want each repository once in %s", alone, together, statusInterval)
	}
	s.report(2)
	s.reported(2, one, two, three)

	do.next("one is killed before it reads the next reports")
	s.report(3)
	two.Kill()
	killed := time.Now()
	s.works(one, three)
	t.Logf("    the others own its repositories %.1f s after the kill, with a lease of 3 s", time.Since(killed).Seconds())
	s.reported(3, one, three)

	do.next("another ends")
	ended, stopped := time.Now(), make(chan error, 1)
	go func() { stopped <- three.Stop() }()
	s.works(one)
	t.Logf("    the last owns all %.1f s after the end began", time.Since(ended).Seconds())
	s.must("end", <-stopped)
	s.report(4)
	s.reported(4, one)
	s.must("end", one.Stop())
	do.next("done")
}

func (s *statusStage) cluster(i int) string { return fmt.Sprintf("c%03d", i) }

// makeRepositories makes one repository and copies it.
func (s *statusStage) makeRepositories() {
	s.Helper()
	first, err := s.git.Seed(s.Context(), s.cluster(0), branch)
	s.must("create a repository", err)
	s.bares = append(s.bares, first)
	for i := 1; i < statusRepositories; i++ {
		bare := s.git.Bare(s.cluster(i))
		s.must("copy the repository", os.CopyFS(bare.Dir, os.DirFS(first.Dir)))
		s.bares = append(s.bares, bare)
	}
	s.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info/refs") {
			s.reads.Add(1)
		}
		s.git.ServeHTTP(w, r)
	}))
	s.Cleanup(s.front.Close)
}

// process starts one that runs all services.
func (s *statusStage) process(name string) *program.Emco {
	s.Helper()
	e, err := program.Start(s.Context(), program.Options{Bin: binaries(), Dir: filepath.Join(s.dir, name), Args: []string{
		"-etcd.endpoints", s.etcd, "-etcd.prefix", "/emco-" + filepath.Base(s.dir) + "/", "-lease", "3s", "-encryption.kek", "file://" + s.kek(),
		"-status.interval", statusInterval.String(),
	}})
	s.must("start "+name, err)
	s.Cleanup(e.Kill)
	return e
}

// kek returns the file with the key-encryption key of all processes.
func (s *statusStage) kek() string {
	s.Helper()
	file := filepath.Join(s.dir, "kek")
	s.must("write a key", os.WriteFile(file, []byte("BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="), 0o600))
	return file
}

// report puts a report of every cluster onto its branch, as its agent does.
func (s *statusStage) report(seq uint64) {
	s.Helper()
	var all errgroup.Group
	all.SetLimit(4)
	for i, bare := range s.bares {
		all.Go(func() error {
			r := status.Report{Cluster: "edge+" + s.cluster(i), Seq: seq, At: time.Now(), Agent: fmt.Sprintf("monitor/%d", seq)}
			text, err := status.Encode(r, 0)
			if err != nil {
				return err
			}
			ref := "refs/heads/" + status.Branch(status.DefaultPrefix, r.Cluster)
			stream := fmt.Sprintf("reset %s\ncommit %s\ncommitter a <a@localhost> %d +0000\ndata 0\nM 100644 inline %s\ndata %d\n%s\n", ref, ref, seq, status.File, len(text), text)
			_, err = bare.Git(s.Context(), stream, "fast-import", "--quiet", "--force")
			return err
		})
	}
	s.must("report", all.Wait())
}

// window counts the reads of all repositories in two intervals.
func (s *statusStage) window() int64 {
	s.Helper()
	before := s.reads.Load()
	select {
	case <-time.After(2 * statusInterval):
	case <-s.Context().Done():
		s.Fatal("the test has ended")
	}
	return s.reads.Load() - before
}

// works waits until the processes own all shards of repositories, each some.
func (s *statusStage) works(all ...*program.Emco) {
	s.Helper()
	eventually(s, "a part of the repositories for each process", func() error {
		owned := 0
		for i, e := range all {
			text, err := e.Get(s.Context(), "/readyz?verbose")
			if err != nil {
				return err
			}
			_, state, _ := strings.Cut(string(text), "\nstatus: ready; ")
			var own, of, members int
			if _, err := fmt.Sscanf(state, "works on %d of %d shards, members: %d", &own, &of, &members); err != nil || members != len(all) || own == 0 {
				return fmt.Errorf("process %d of %d: %.100s", i+1, len(all), state)
			}
			owned += own
		}
		if owned != statusShards {
			return fmt.Errorf("%d of %d shards are owned", owned, statusShards)
		}
		return nil
	})
}

// reported waits until all processes answer the same about each agent: that its last report is of a sequence. None of them
// has refused one.
func (s *statusStage) reported(seq uint64, all ...*program.Emco) {
	s.Helper()
	eventually(s, fmt.Sprintf("report %d of all clusters", seq), func() error {
		var mu sync.Mutex
		missing, first := 0, ""
		var asking errgroup.Group
		asking.SetLimit(8)
		for i := range statusRepositories {
			asking.Go(func() error {
				complaint, err := s.agent(i, seq, all)
				if complaint != "" {
					mu.Lock()
					defer mu.Unlock()
					missing, first = missing+1, complaint
				}
				return err
			})
		}
		if err := asking.Wait(); err != nil {
			return err
		}
		if missing > 0 {
			return fmt.Errorf("of %d clusters it is not there: %s", missing, first)
		}
		return nil
	})
}

// agent compares what the processes answer about a cluster's agent.
func (s *statusStage) agent(i int, seq uint64, all []*program.Emco) (complaint string, err error) {
	var first []byte
	for n, e := range all {
		got, err := bytesOf(s, e.URL()+"/v2/cluster-providers/edge/clusters/"+s.cluster(i)+"/monitor", "")
		if err != nil {
			return err.Error(), nil // it has not reported yet
		}
		if n == 0 {
			first = got
		}
		if !bytes.Equal(got, first) {
			return fmt.Sprintf("process %d answers %s, the first %s", n+1, got, first), nil
		}
	}
	var a struct {
		Sequence uint64
		Refused  *struct{ Why string }
	}
	if err := json.Unmarshal(first, &a); err != nil {
		return "", err
	}
	if a.Refused != nil {
		s.Errorf("a report of %s was refused: %s", s.cluster(i), a.Refused.Why)
	}
	if a.Sequence != seq {
		return string(first), nil
	}
	return "", nil
}
