package app_test

// The tests whose names begin with TestConformance are the points on which upstream EMCO was seen
// to fail, by number. docs/reliability.md lists them all; those that need real clusters
// are in scripts/e2e.

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// An update that only removes something removes it, even if the store is slow.
func TestConformance01RemovalsAreNotLost(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{0, time.Millisecond / 2, 3 * time.Millisecond, 5 * time.Millisecond} { // each way
		t.Run(delay.String(), func(t *testing.T) {
			t.Parallel()
			s := newStageOn(t, distantEtcd(t, delay))
			s.fleet("a", "b")
			s.onboard("web")
			s.repack("web", configMap+"---\n"+strings.Replace(configMap, "name: ", "name: extra-", 1))
			g := s.group("autumn", appPlaces{"web": nil})
			g.act("instantiate")
			id := g.becomes("Instantiated").States.StatusCtxID
			extra := func(cluster string) string {
				return strings.Replace(object(cluster, id, "web"), "/r1-web", "/extra-r1-web", 1)
			}
			s.wantTree(object("a", id, "web"), extra("a"), object("b", id, "web"), extra("b"))

			s.repack("web", configMap) // a resource leaves
			g.expect(202, "POST", g.path+"/update", "")
			g.settled(2)
			s.wantTree(object("a", id, "web"), object("b", id, "web"))

			g.moveTo("web", "b") // a cluster leaves
			g.expect(202, "POST", g.path+"/update", "")
			g.settled(3)
			s.wantTree(object("b", id, "web"))
		})
	}
}

// settled waits until a revision is all there is.
func (g testGroup) settled(revision int64) {
	g.Helper()
	g.eventually(fmt.Sprintf("revision %d is there", revision), func() string {
		st := g.status()
		if st.DeployedStatus != "Instantiated" {
			return "deployedStatus is " + st.DeployedStatus
		}
		for _, a := range st.Apps {
			for _, c := range a.Clusters {
				if c.Revision != revision {
					return fmt.Sprintf("%s on %s is at revision %d", a.Name, c.Cluster, c.Revision)
				}
			}
		}
		return ""
	})
}

// Each of two updates in a row reaches the path that the cluster reads, and terminate
// leaves nothing.
func TestConformance02EveryRevisionArrives(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.running("a")
	path := object("a", g.becomes("Instantiated").States.StatusCtxID, "web")
	for rev := int64(2); rev <= 3; rev++ {
		s.repack("web", configMap+"  edition: "+strconv.Quote(strconv.FormatInt(rev, 10))+"\n")
		if got := g.expect(202, "POST", g.path+"/update", ""); got != strconv.FormatInt(rev, 10) {
			t.Errorf("update answers %s, want %d", got, rev)
		}
		g.settled(rev)
	}
	g.act("terminate")
	g.becomes("Terminated")
	s.wantTree()

	log, err := s.bare.Git(t.Context(), "", "log", "--reverse", "--format=%H", branch, "--", path)
	s.must("read the history", err)
	var editions []string
	for _, commit := range strings.Fields(log) {
		text, err := s.bare.Show(t.Context(), commit, path)
		switch {
		case err != nil:
			editions = append(editions, "gone")
		case strings.Contains(text, "edition"):
			_, after, _ := strings.Cut(text, "edition")
			editions = append(editions, strings.Trim(strings.Fields(after)[1], `",}`))
		default:
			editions = append(editions, "1")
		}
	}
	wantEqual(s, "the file's history", editions, []string{"1", "2", "3", "gone"})
}

// A commit that the Git server refuses is not Applied. It is retried until the server
// accepts it.
func TestConformance05ARefusedCommitIsNotApplied(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b")
	s.onboard("web")
	s.must("refuse pushes", s.bare.Reject("the freeze is on until Monday"))
	g := s.group("autumn", appPlaces{"web": nil})
	g.act("instantiate")
	s.eventually("the status reports the refusal", func() string {
		st := g.status()
		for _, c := range []string{"a", "b"} {
			p := pair(st, "web", c)
			if p.Phase == "Applied" || p.Commit != "" || st.DeployedStatus == "Instantiated" || st.DeployedCounts["Applied"] > 0 {
				t.Fatalf("web on %s is reported as applied: %+v, %s", c, p, st.DeployedStatus)
			}
			if !strings.Contains(p.Error, "the freeze is on until Monday") {
				return fmt.Sprintf("web on %s: phase %s, error %q", c, p.Phase, p.Error)
			}
		}
		return ""
	})
	s.wantTree()
	s.must("take pushes", s.bare.Accept())
	st := g.becomes("Instantiated")
	s.wantTree(object("a", st.States.StatusCtxID, "web"), object("b", st.States.StatusCtxID, "web"))
	if p := pair(st, "web", "a"); p.Commit == "" || p.Error != "" {
		t.Errorf("after the freeze: %+v", p)
	}
}

// A mandatory cluster is used although it is also an alternative. A named cluster outside
// of the logical cloud is refused.
func TestConformance11PlacementKeepsWhatIsMandatory(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b")
	s.cluster("outside", "repo") // registered, but no member of the logical cloud
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	intend := func(intent string) {
		s.expect(200, "PUT", g.path+"/generic-placement-intents/places/app-intents/web",
			`{"metadata":{"name":"web"},"spec":{"app":"web","intent":`+intent+`}}`)
	}
	one := func(cluster string) string { return `{"clusterProvider":"edge","cluster":"` + cluster + `"}` }

	intend(`{"allOf":[` + one("b") + `],"anyOf":[` + one("outside") + `]}`)
	a := s.do("POST", g.path+"/instantiate", "")
	if a.Status != 400 || !strings.Contains(a.Body, "outside") || !strings.Contains(a.Body, "stores") {
		t.Errorf("an optional cluster outside of the logical cloud: got %d %s, want 400 that names the cluster and the cloud", a.Status, a.Body)
	}

	intend(`{"allOf":[` + one("b") + `],"anyOf":[` + one("a") + "," + one("b") + `]}`)
	g.act("instantiate")
	st := g.becomes("Instantiated")
	if !slices.Contains(pairs(st), "web b Applied") {
		t.Errorf("the mandatory cluster is not used: %v", pairs(st))
	}
}

// Sealed credentials are never served in clear, and equal ones look different. With a
// missing or wrong key the program refuses to start; a new key could never open what was
// sealed.
func TestConformance15AMissingKeyRefusesToStart(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a")
	s.expect(201, "POST", provider+"/cluster-sync-objects", s.syncObject("twin", s.git.URL("fleet"), s.token))
	s.stop()
	wantSealedApart(s)

	path := filepath.Join(s.config.Data, "sealing.key")
	key, err := os.ReadFile(path)
	s.must("read the key", err)
	s.must("lose the key", os.Remove(path))
	s.refusesToStart("sealing.key is missing")
	if _, err := os.Stat(path); err == nil {
		t.Error("a new key was made")
	}
	s.must("put another key", os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(make([]byte, 32))+"\n"), 0o600))
	s.refusesToStart("does not open what is sealed")
	s.must("restore the key", os.WriteFile(path, key, 0o600))
	s.start()
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	g.act("instantiate")
	g.becomes("Instantiated")
}

// wantSealedApart checks that the token is nowhere in the data folder. Both sync objects
// hold it, so that each must have been sealed; package seal's own tests show that equal
// texts are sealed to different ones.
func wantSealedApart(s *testStage) {
	s.Helper()
	files := 0
	err := filepath.WalkDir(s.config.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(s.token)) {
			s.Errorf("%s holds the token in clear", path)
		}
		return err
	})
	if err != nil || files < 3 {
		s.Errorf("%d files were searched: %v", files, err)
	}
}

func (s *testStage) refusesToStart(why string) {
	s.Helper()
	a, err := app.New(s.Context(), s.config, slog.New(slog.DiscardHandler))
	if err == nil {
		_ = a.Run(canceled())
	}
	if err == nil || !strings.Contains(err.Error(), why) {
		s.Errorf("start: got %v, want a refusal with %q", err, why)
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// newStageOn is a stage whose program uses an etcd elsewhere.
func newStageOn(t *testing.T, etcd string) *testStage {
	t.Helper()
	return newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints = []string{etcd} })
}

// A stop ends retries, and what is terminated afterwards is not installed first.
func TestConformance06StopEndsRetries(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	s.git.Answer(1<<30, http.StatusServiceUnavailable, -1)
	g.act("instantiate")
	s.waitsInPhase(g, "a", "Retrying", "503")

	g.act("stop")
	began := time.Now()
	if st := g.status(); st.DeployedStatus != "InstantiateFailed" || st.States.Actions[len(st.States.Actions)-1].State != "InstantiateStopped" {
		t.Errorf("after stop: %s, %v", st.DeployedStatus, history(st))
	}
	s.eventually("the stop takes effect", func() string {
		return unless(pair(g.status(), "web", "a").Blocked, "stopped")
	})
	t.Logf("the stop took effect after %v; it may take two seconds", time.Since(began))
	before, _ := s.git.Requests()
	time.Sleep(3 * time.Duration(s.config.Retry.Longest))
	if now, _ := s.git.Requests(); now != before {
		t.Errorf("%d requests to the Git server after the stop", now-before)
	}

	s.git.Answer(0, 0, -1)
	g.act("terminate")
	g.becomes("Terminated")
	if _, pushes := s.git.Requests(); pushes != 0 {
		t.Errorf("%d pushes, though nothing was ever applied", pushes)
	}
	s.wantTree()

	g.act("instantiate")
	st := g.becomes("Instantiated")
	s.wantTree(object("a", st.States.StatusCtxID, "web"))
}
