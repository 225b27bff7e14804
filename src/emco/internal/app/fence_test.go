package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// rsyncProcess is a process that runs rsync alone, in parallel to the stage's program.
type rsyncProcess struct {
	*childProcess
	api *client.Client
}

// deliverer starts one on the stage's stores.
func (s *testStage) deliverer(name string) rsyncProcess {
	s.Helper()
	c := s.config
	c.Target = []string{"rsync"}
	text, err := config.Print(c)
	s.must("write the configuration", err)
	file := filepath.Join(s.dir, name+".yaml")
	s.must("write the configuration", os.WriteFile(file, text, 0o600))
	p, err := startProcess(s.log, "", file)
	s.must("start "+name, err)
	s.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	d := rsyncProcess{childProcess: p}
	d.api, err = client.New(client.Options{BaseURL: "http://" + p.address})
	s.must("make a client", err)
	return d
}

func (s *testStage) ask(d rsyncProcess, method, path, body string) string {
	s.Helper()
	r := client.Request{Method: method, Path: path}
	if body != "" {
		r.Body = client.JSON([]byte(body))
	}
	res, err := d.api.Do(s.Context(), r)
	s.must(method+" "+path, err)
	if res.Status != http.StatusOK {
		s.Fatalf("%s %s: %d %s", method, path, res.Status, res.Body)
	}
	return string(res.Body)
}

// sum adds up the values of a metric over all labels.
func (s *testStage) sum(d rsyncProcess, metric string) (n float64) {
	s.Helper()
	for line := range strings.Lines(s.ask(d, "GET", "/metrics", "")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == metric || strings.HasPrefix(name, metric+"{") {
			v, err := strconv.ParseFloat(value, 64)
			s.must("read "+line, err)
			n += v
		}
	}
	return n
}

// The process that delivers is stopped for longer than its lease: on its way to the Git
// server, or while it records what it did. Another process takes over and continues with
// the next revision. When the stopped one continues, its remaining writes must be refused.
func TestH33ASleeperDoesNotOvertake(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"git.commit.before", "etcd.settle.before"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			etcd := etcdtest.Start(t, 1, etcdtest.Options{})
			s := newStageWith(t, func(c *config.Config) {
				c.Target = []string{"clm", "dcm", "placementintent", "orchestrator"}
				c.Etcd.Endpoints, c.Lease = etcd.Endpoints(), config.Duration(2*time.Second)
			})
			s.sleeper(point)
		})
	}
}

func (s *testStage) sleeper(point string) {
	one, two := s.deliverer("first"), s.deliverer("second")
	s.fleet("a")
	s.onboard("web")
	s.repack("web", edition(1))
	g := s.group("autumn", appPlaces{"web": nil})
	g.act("instantiate")
	path := object("a", g.becomes("Instantiated").States.StatusCtxID, "web")
	asleep, awake := one, two
	if s.sum(two, "emco_git_commits_total") > 0 { // the two settle it among themselves
		asleep, awake = two, one
	}
	revise := func(n int) {
		s.repack("web", edition(n))
		g.expect(202, "POST", g.path+"/update", "")
	}

	s.ask(asleep, "PUT", "/failpoints", point+"=stop(once)")
	revise(2)
	s.eventually("it is stopped in the midst of it", func() string {
		var now syscall.WaitStatus
		_, err := syscall.Wait4(asleep.cmd.Process.Pid, &now, syscall.WNOHANG|syscall.WUNTRACED, nil)
		s.must("ask for its state", err)
		if !now.Stopped() {
			return "it runs"
		}
		return ""
	})
	g.settled(2)
	revise(3)
	g.settled(3)
	s.must("wake up", asleep.cmd.Process.Signal(syscall.SIGCONT))
	s.eventually("the sleeper has been refused", func() string {
		res, err := asleep.api.Do(s.Context(), client.Request{Method: "GET", Path: "/readyz"})
		s.must("ask whether it is ready", err)
		if res.Status != http.StatusOK {
			return string(res.Body)
		}
		if point == "etcd.settle.before" && s.sum(asleep, "emco_fenced_total") == 0 {
			return "nothing is counted"
		}
		if !strings.Contains(s.log.String(), "joining the group again") {
			return "it does not know yet"
		}
		return ""
	})
	revise(4) // whoever does it
	g.settled(4)
	wantEqual(s, "the file's history", s.editionsOf(path), []string{"1", "2", "3", "4"})
	if n := s.sum(asleep, "emco_git_commits_total") + s.sum(awake, "emco_git_commits_total"); n != 4 {
		s.Errorf("%v commits, want 4", n)
	}
	g.act("terminate")
	g.becomes("Terminated")
	s.wantTree()
}

// editionsOf lists the editions of a file, oldest first.
func (s *testStage) editionsOf(path string) (out []string) {
	s.Helper()
	log, err := s.bare.Git(s.Context(), "", "log", "--reverse", "--format=%H", branch, "--", path)
	s.must("read the history", err)
	for commit := range strings.FieldsSeq(log) {
		text, err := s.bare.Show(s.Context(), commit, path)
		if err != nil {
			out = append(out, "gone")
			continue
		}
		_, after, _ := strings.Cut(text, "edition:")
		out = append(out, strings.Trim(fmt.Sprint(strings.Fields(after)[0]), `"`))
	}
	return out
}
