package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// After a kill in the middle of a large update, the result, the number of commits and the revisions are
// the same as without the kill: T4e. EMCO_SCALE sets the size; default 500x10.
func TestRestartInTheMiddleOfAnUpdate(t *testing.T) {
	t.Parallel()
	clusters, n := 500, 10
	if size := os.Getenv("EMCO_SCALE"); size != "" {
		if _, err := fmt.Sscanf(size, "%dx%d", &clusters, &n); err != nil {
			t.Fatalf("EMCO_SCALE is %q, want a size such as 5000x20", size)
		}
	}
	do := steps{TB: t}
	do.next("%d clusters, %d apps, installed", clusters, n)
	s := newScale(t, clusters, n)
	s.measure("instantiate", func() {})
	for i, m := range moments() {
		do.next("one value of one app, and kill -9 %s", m.name)
		commits := s.commits()
		s.updateWithKill(m, shade(i))
		if got, want := s.commits()-commits, s.branches(); got != want {
			t.Errorf("%d commits, want %d, one per branch", got, want)
		}
	}
	s.revisionsOnce(1 + len(moments()))

	do.next("the same without a kill")
	calm := newScale(t, clusters, n)
	calm.measure("instantiate", func() {})
	for i := range moments() {
		calm.measure("update", func() { calm.revalue(shade(i)) })
	}
	s.equal(calm)
	calm.revisionsOnce(1 + len(moments()))
	s.sound()
	do.next("done")
}

func shade(i int) string { return "shade-" + strconv.Itoa(i) }

// killMoment is the time of the kill: at a signal of the Git server or, without one, when the update is
// accepted.
type killMoment struct {
	name string
	on   func(s *scaleStage, strike func(repo string)) // nil ends it
}

func moments() []killMoment {
	return []killMoment{
		{"after it has answered", nil},
		{"when its push has begun", func(s *scaleStage, strike func(string)) { s.git.BeforePush(strike) }},
		{"when its push has landed and it does not know", func(s *scaleStage, strike func(string)) { s.git.AfterPush(strike) }},
	}
}

// updateWithKill updates a value, kills emco at a moment and starts it again.
func (s *scaleStage) updateWithKill(m killMoment, colour string) {
	s.Helper()
	dead := make(chan struct{})
	var once sync.Once
	victim := s.emco
	strike := func(string) {
		once.Do(func() {
			victim.Kill()
			close(dead)
		})
	}
	s.revalue(colour)
	if m.on != nil {
		m.on(s, strike)
	}
	s.must("update", s.fleet().Act(s.Context(), s.d.Path(), "update"))
	if m.on == nil {
		strike(repoName)
	}
	select {
	case <-dead:
	case <-time.After(patience):
		s.Fatal("the moment did not come")
	}
	if m.on != nil {
		m.on(s, nil)
	}
	began := time.Now()
	s.start()
	s.done()
	s.Logf("    done %.1f s after the restart", time.Since(began).Seconds())
}

// commits counts those of all branches.
func (s *scaleStage) commits() int {
	s.Helper()
	out, err := s.bare.Git(s.Context(), "", "rev-list", "--count", "--branches")
	s.must("count commits", err)
	n, err := strconv.Atoi(strings.TrimSpace(out))
	s.must("count commits", err)
	return n
}

// revisionsOnce expects revisions 1 to n, each once, and no commit in two of them.
func (s *scaleStage) revisionsOnce(n int) {
	s.Helper()
	c, err := client.New(client.Options{BaseURL: s.emco.URL()})
	s.must("open the API", err)
	all, err := client.Get[v2.RevisionsAnswer](s.Context(), c, s.d.Path()+"/revisions")
	s.must(http.MethodGet+" revisions", err)
	if len(all.Revisions) != n {
		s.Errorf("%d revisions are listed, want %d", len(all.Revisions), n)
	}
	seen := map[string]int64{}
	for i, r := range all.Revisions {
		if r.Number != int64(n-i) || r.Current != (i == 0) {
			s.Errorf("revision %d comes at place %d (current: %t), want %d", r.Number, i, r.Current, n-i)
		}
		for _, commit := range r.Commits {
			if in, twice := seen[commit.Commit]; twice {
				s.Errorf("commit %s is one of revision %d and of revision %d", commit.Commit, r.Number, in)
			}
			seen[commit.Commit] = r.Number
		}
	}
}
