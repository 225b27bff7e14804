package app_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// The log says when etcd stops to answer and when it answers again, and is not full of its client's lines.
func TestTheLogTellsOfAnOutageOfEtcd(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	s := newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints = etcd.Endpoints() })
	logged := func(line string) {
		t.Helper()
		s.eventually(line, func() string {
			if strings.Contains(s.log.String(), line) {
				return ""
			}
			return "the log lacks it"
		})
	}
	place := `"msg":"etcd at ` + etcd.Endpoints()[0]
	etcd.Kill(0)
	logged(place + " does not answer")
	for range 5 {
		s.do("GET", "/readyz", "")
	}
	etcd.Restart(0)
	logged(place + " answers again")
	lines := map[string]int{}
	for line := range strings.Lines(s.log.String()) {
		if _, err, found := strings.Cut(line, `"component":"etcd",`); found {
			err, _, _ = strings.Cut(err, `"method"`)
			lines[err]++
		}
	}
	for line, n := range lines {
		if n > 2 { // in two minutes at most
			s.Errorf("the client of etcd logs %d times %s", n, line)
		}
	}
}

func TestAnInvalidAppFailsAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b")
	s.onboard("cache", "web")
	s.repack("web", nameless)
	g := s.group("autumn", appPlaces{"web": nil, "cache": nil})
	g.act("instantiate")
	st := g.becomes("InstantiateFailed")
	id := st.States.StatusCtxID
	wantEqual(s, "pairs", pairs(st), []string{"cache a Applied", "cache b Applied"})
	wantBlame(s, st)
	s.wantTree(object("a", id, "cache"), object("b", id, "cache"))

	s.repack("web", configMap)
	g.act("instantiate")
	st = g.becomes("Instantiated")
	both := []string{object("a", id, "cache"), object("b", id, "cache"), object("a", id, "web"), object("b", id, "web")}
	s.wantTree(both...)
	before := s.file(object("a", id, "web"))

	g.act("terminate")
	g.becomes("Terminated")
	g.act("instantiate")
	g.becomes("Instantiated")
	s.wantTree(both...)
	if now := s.file(object("a", id, "web")); now != before {
		t.Errorf("the same inputs gave other bytes:\n%s\nbefore\n%s", now, before)
	}
}

func TestAnAppThatBreaksLaterStaysAsItWas(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a")
	s.onboard("cache", "other", "web")
	s.repack("other", nameless) // keeps the group failed, so that it may be instantiated again
	g := s.group("autumn", appPlaces{"web": nil, "cache": nil, "other": nil})
	g.act("instantiate")
	id := g.becomes("InstantiateFailed").States.StatusCtxID
	before := s.file(object("a", id, "web"))

	s.repack("web", nameless)
	s.repack("cache", strings.ReplaceAll(configMap, "data:", "data:\n  more: news"))
	g.act("instantiate")
	s.eventually("the cache is renewed", func() string {
		if strings.Contains(s.file(object("a", id, "cache")), "more: news") {
			return ""
		}
		return "not yet"
	})
	st := g.becomes("InstantiateFailed")
	wantBlame(s, st)
	wantEqual(s, "pairs", pairs(st), []string{"cache a Applied", "web a Applied"})
	s.wantTree(object("a", id, "cache"), object("a", id, "web"))
	if now := s.file(object("a", id, "web")); now != before {
		t.Errorf("the broken app was changed to\n%s", now)
	}
}

// wantBlame checks that the status names stage, file and reason of web's failure.
func wantBlame(s *testStage, st v2.Status) {
	s.Helper()
	for _, a := range st.Apps {
		f := a.Failure
		switch {
		case a.Name == "web" && (f == nil || f.Stage != "rendering" || !strings.Contains(f.File, "templates/object.yaml") || !strings.Contains(f.Reason, "name")):
			s.Errorf("failure of web: %+v, want the stage, the file and the reason", f)
		case a.Name == "cache" && f != nil:
			s.Errorf("failure of cache: %+v", f)
		}
	}
	if !slices.ContainsFunc(st.Apps, func(a v2.AppStatus) bool { return a.Name == "web" }) {
		s.Errorf("the status does not mention web: %+v", st.Apps)
	}
}

func TestTerminateOvertakesInstantiate(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	inPush, goOn := make(chan struct{}), make(chan struct{})
	s.git.BeforePush(func(string) {
		select {
		case inPush <- struct{}{}:
			<-goOn
		case <-goOn:
		}
	})
	g.act("instantiate")
	<-inPush
	if got := g.status().DeployedStatus; got != "Instantiating" {
		t.Errorf("while the push is under way: deployedStatus %q", got)
	}
	g.act("terminate")
	if got := g.status().DeployedStatus; got != "Terminating" {
		t.Errorf("while the push is under way, after terminate: deployedStatus %q", got)
	}
	close(goOn)
	st := g.becomes("Terminated")
	wantEqual(s, "history", history(st), []string{"Created - 0", "Approved - 0", "Instantiated first 1", "Terminated first 0"})
	s.wantTree()
}

// One server answers 503 for a while, one does not exist, one works. The deployment on the
// third is not delayed. The other deployments report the error and recover when the server
// is back, or when the sync object names the right address.
func TestOutages(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a")
	address := map[string]string{"gone": s.repository(true), "well": s.repository(false)}
	for _, name := range []string{"gone", "well"} {
		s.expect(201, "POST", provider+"/cluster-sync-objects", s.syncObject(name, address[name], s.token))
		s.cluster(name, name)
		s.member(name)
	}
	s.onboard("web")
	stuck, down, up := s.group("stuck", appPlaces{"web": {"a", "gone"}}), s.group("down", appPlaces{"web": {"a"}}), s.group("up", appPlaces{"web": {"well"}})
	stuck.act("instantiate")
	s.waitsInPhase(stuck, "gone", "Retrying", "connection refused")

	s.git.Answer(1<<30, http.StatusServiceUnavailable, -1)
	down.act("instantiate")
	s.waitsInPhase(down, "a", "Retrying", "503")
	up.act("instantiate")
	up.becomes("Instantiated")                                                                     // while the other two are away
	if got := down.status().DeployedStatus; got != "Instantiating" && got != "InstantiateFailed" { // after a few tries
		t.Errorf("deployedStatus is %q while the server is away", got)
	}
	s.git.Answer(0, 0, -1)
	st := down.becomes("Instantiated")
	if p := pair(st, "web", "a"); p.Error != "" || p.Commit == "" || p.Revision != 1 {
		t.Errorf("after the outage: %+v", p)
	}

	st = stuck.becomes("InstantiateFailed") // after a few tries
	wantEqual(s, "pairs", pairs(st), []string{"web a Applied", "web gone Failed"})
	s.expect(201, "PUT", provider+"/cluster-sync-objects/gone", s.syncObject("gone", s.git.URL("fleet"), s.token))
	id := stuck.becomes("Instantiated").States.StatusCtxID
	s.wantTree(object("a", id, "web"), object("gone", id, "web"), object("a", down.status().States.StatusCtxID, "web"))
}

// waitsInPhase waits until the app "web" on a cluster is in a phase for a reason.
func (s *testStage) waitsInPhase(g testGroup, cluster, phase, reason string) {
	s.Helper()
	s.eventually(g.path+" reports the reason", func() string {
		p := pair(g.status(), "web", cluster)
		if p.Phase == phase && strings.Contains(p.Error, reason) && p.Connectivity == "Retrying" {
			return ""
		}
		return "phase " + p.Phase + ", error " + p.Error + ", connectivity " + p.Connectivity
	})
}

// repository serves a repository from a server of its own and returns its URL. If dead is
// set, it stops the server at once.
func (s *testStage) repository(dead bool) string {
	s.Helper()
	server, err := gittest.Serve(s.TempDir(), gittest.User{Name: writer, Token: s.token, Write: true})
	s.must("serve Git", err)
	s.Cleanup(func() { _ = server.Close() })
	_, err = server.Seed(s.Context(), "own", branch)
	s.must("make the repository", err)
	if dead {
		s.must("stop serving", server.Close())
	}
	return server.URL("own")
}

func TestAWrongTokenFailsTheDeploymentUntilItIsMended(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a")
	s.expect(201, "PUT", provider+"/cluster-sync-objects/repo", s.syncObject("repo", s.git.URL("fleet"), "planted-wrong"))
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	g.act("instantiate")
	st := g.becomes("InstantiateFailed")
	p := pair(st, "web", "a")
	if p.Phase != "Failed" || !strings.Contains(p.Error, "401") && !strings.Contains(p.Error, "credential") {
		t.Errorf("got phase %q, error %q, want Failed for the credential", p.Phase, p.Error)
	}
	all := s.expect(200, "GET", g.path+"/status?status=deployed", "") + s.expect(200, "GET", provider+"/cluster-sync-objects/repo", "")
	if strings.Contains(all, "planted") || strings.Contains(s.log.String(), "planted-wrong") {
		t.Error("an answer or the log holds the token")
	}
	s.expect(201, "PUT", provider+"/cluster-sync-objects/repo", s.syncObject("repo", s.git.URL("fleet"), s.token))
	g.becomes("Instantiated")
	g.act("terminate")
	g.becomes("Terminated")
	s.wantTree()
}
