package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// moving is how far the last move of a cluster is.
func (s *testStage) moving(cluster string) (m v2.ClusterMove) {
	s.Helper()
	s.must("read the move", json.Unmarshal([]byte(s.expect(200, "GET", provider+"/clusters/"+cluster+"/move", "")), &m))
	return m
}

// moved waits until the last move of a cluster is done.
func (s *testStage) moved(cluster string) (m v2.ClusterMove) {
	s.Helper()
	s.eventually(cluster+" has moved", func() string {
		if m = s.moving(cluster); !m.Done {
			return fmt.Sprintf("%+v", m)
		}
		return ""
	})
	return m
}

// holdsOn reports whether a branch holds a file.
func (s *testStage) holdsOn(branch, file string) bool {
	_, err := s.read.file(s.Context(), branch, file)
	return err == nil
}

// commitsOf counts the commits of a branch; 0 if it is not there.
func (s *testStage) commitsOf(branch string) string {
	n, err := s.bare.Git(s.Context(), "", "rev-list", "--count", branch)
	if err != nil {
		return "0"
	}
	return n
}

// neverHomeless watches each push: whatever it finds, one of the branches holds the file. It
// returns whether that was always so.
func (s *testStage) neverHomeless(file string, branches ...string) func() bool {
	var lost atomic.Int64
	s.git.BeforePush(func(string) {
		if !slices.ContainsFunc(branches, func(b string) bool { return s.holdsOn(b, file) }) {
			lost.Add(1)
		}
	})
	return func() bool { s.git.BeforePush(nil); return lost.Load() == 0 }
}

// A cluster moves to another shard with everything that it holds: one commit on either
// side, the new one first. A branch of its own stays unchanged.
func TestAClusterMovesWithWhatItHolds(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"shard", "cluster"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			g := s.shardsFleet(mode, "a", "b", "c")
			id := g.becomes("Instantiated").States.StatusCtxID
			file := object("a", id, "web")
			before := s.commitsOf("main-s000")
			view := ""
			if mode == "cluster" {
				view = s.idOf("clusters/edge+a")
			}
			always := s.neverHomeless(file, "main-s000", "main-s007")
			if got := s.expect(http.StatusAccepted, "POST", provider+"/clusters/a/move", `{"gitOpsShard":"s007"}`); !strings.Contains(got, `"gitOpsShard":"s007"`) || !strings.Contains(got, `"from":{"gitOpsType":"git"`) {
				t.Errorf("the answer is %s", got)
			}
			if mode == "shard" { // the reconciler reads the old place until its configuration changes
				s.eventually("the move waits", func() string {
					if m := s.moving("a"); !strings.Contains(m.Error, "reads branch main-s007") || m.Conditions[1].Status != "True" {
						return fmt.Sprintf("%+v", m)
					}
					return ""
				})
				if !s.holdsOn("main-s000", file) || !s.holdsOn("main-s007", file) {
					t.Error("it is not in both places")
				}
				s.expect(http.StatusConflict, "POST", provider+"/clusters/a/move", `{"gitOpsShard":"s008"}`)
				s.expect(http.StatusConflict, "DELETE", provider+"/clusters/a", "")
				s.expect(http.StatusAccepted, "POST", provider+"/clusters/a/move", `{"finish":true}`)
			}
			m := s.moved("a")
			if !always() {
				t.Error("for a moment the cluster was in neither place")
			}
			wantEqual(s, "the new place", s.files("main-s007"), []string{file})
			wantEqual(s, "the old place", s.files("main-s000"), []string{object("b", id, "web")})
			if n := s.commitsOf("main-s007"); n != "1" {
				t.Errorf("%s commits in the new place, want one", n)
			}
			if n := s.commitsOf("main-s000"); fmt.Sprint(before, "+1") != fmt.Sprint(atoi(n)-1, "+1") {
				t.Errorf("%s commits in the old place, which had %s, want one more", n, before)
			}
			reads := s.idOf("main-s007")
			if mode == "cluster" {
				reads = view
				if now := s.idOf("clusters/edge+a"); now != view {
					t.Errorf("what the cluster reads went from %s to %s", view, now)
				}
			}
			s.eventually("the status names the commit that it reads", func() string {
				return unless(pair(g.status(), "web", "a").Commit, reads)
			})
			if m.Written != reads || m.Cleared != s.idOf("main-s000") || m.From.Shard != "s000" || m.To.Shard != "s007" || m.Error != "" {
				t.Errorf("the move is %+v", m)
			}
			for _, c := range m.Conditions {
				if c.Status != "True" {
					t.Errorf("condition %+v", c)
				}
			}
			s.expect(http.StatusOK, "POST", provider+"/clusters/a/move", `{"gitOpsShard":"s007"}`)

			// Updates go to the new place, also after a restart, and so does the end.
			s.stop()
			s.start()
			s.repack("web", configMap+"  more: \"yes\"\n")
			g.expect(http.StatusAccepted, "POST", g.path+"/update", "")
			s.eventually("the update is in the new place", func() string {
				text, _ := s.read.file(s.Context(), "main-s007", file)
				return unless(fmt.Sprint(strings.Contains(text, "more")), "true")
			})
			g.becomes("Instantiated")
			g.act("terminate")
			g.becomes("Terminated")
			wantEqual(s, "the new place at the end", s.files("main-s007"), nil)
		})
	}
}

func atoi(s string) (n int) {
	_, _ = fmt.Sscan(s, &n)
	return n
}

// A cluster's own branch is deleted with the cluster. It stays if someone else has changed
// it, or if the cluster is registered again.
func TestTheBranchOfADeregisteredClusterGoes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.must("let branches be removed", s.bare.Config(t.Context(), "receive.denyDeletes", "false"))
	g := s.shardsFleet("cluster", "a", "b", "c")
	g.becomes("Instantiated")
	g.act("terminate")
	g.becomes("Terminated")
	_, err := s.bare.CommitExternal(t.Context(), "clusters/edge+b", map[string]gittest.File{"mine": {Content: "mine"}})
	s.must("put something else there", err)
	s.expect(http.StatusAccepted, "POST", cloud+"/terminate", "")
	for _, c := range []string{"a", "b"} {
		s.eventually(c+" is no part of the cloud", func() string {
			return unless(s.do("DELETE", cloud+"/cluster-references/"+c, "").Status/100, 2)
		})
		s.expect(http.StatusNoContent, "DELETE", provider+"/clusters/"+c+"/labels/all", "")
		s.expect(http.StatusNoContent, "DELETE", provider+"/clusters/"+c, "")
	}
	s.eventually("the branch of a is gone, and no other", func() string {
		out, err := s.bare.Git(t.Context(), "", "for-each-ref", "--format=%(refname:short)", "refs/heads/clusters")
		s.must("list branches", err)
		return unless(strings.Join(strings.Fields(out), " "), "clusters/edge+b clusters/edge+c")
	})
}

// Updates continue while clusters move to and fro. In the end each cluster is in one place,
// with the last content.
func TestUpdatesGoOnWhileClustersMove(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.shardsFleet("cluster", "a", "b", "c", "d")
	id := g.becomes("Instantiated").States.StatusCtxID
	always := s.neverHomeless("clusters/edge+a/context/"+id+"/app/web/r1-web+ConfigMap.yaml", "clusters/edge+a")
	for round := range 6 {
		s.repack("web", fmt.Sprintf("%s  round: \"%d\"\n", configMap, round))
		for i, c := range []string{"a", "b"} {
			s.expect(http.StatusAccepted, "POST", provider+"/clusters/"+c+"/move", fmt.Sprintf(`{"gitOpsShard":"s%03d"}`, 10+2*round+i))
		}
		g.expect(http.StatusAccepted, "POST", g.path+"/update", "")
		for _, c := range []string{"a", "b"} {
			s.moved(c)
		}
	}
	s.eventually("all hold the last content", func() string {
		for c, shard := range map[string]string{"a": "main-s020", "b": "main-s021", "c": "main-s001", "d": "main-s001"} {
			text, err := s.read.file(s.Context(), shard, object(c, id, "web"))
			read, err2 := s.read.file(s.Context(), "clusters/edge+"+c, object(c, id, "web"))
			if err != nil || err2 != nil || text != read || !strings.Contains(text, `round: "5"`) {
				return fmt.Sprint(c, " on ", shard, ": ", text, err, err2)
			}
		}
		return ""
	})
	g.becomes("Instantiated")
	if !always() {
		t.Error("for a moment a cluster read nothing")
	}
	for n := range 6 {
		for i := range 2 {
			if shard := fmt.Sprintf("main-s%03d", 10+2*n+i); n < 5 && len(s.files(shard)) > 0 {
				t.Errorf("%s still holds %v", shard, s.files(shard))
			}
		}
	}
}

// A change of the sync type is one commit that rewrites the pointers to the apps and no
// app: T7c.
func TestT7cAnotherTypeRewritesPointersOnly(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a")
	s.expect(201, "POST", provider+"/clusters", `{"metadata":{"name":"f"},"spec":{"gitOps":{"gitOpsType":"fluxv2","gitOpsReferenceObject":"repo"}}}`)
	s.expect(201, "POST", provider+"/clusters/f/labels", `{"clusterLabel":"all"}`)
	s.member("f")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	g.act("instantiate")
	id := g.becomes("Instantiated").States.StatusCtxID
	apps := s.idOf(branch + ":clusters/edge+f/context/" + id + "/app")
	before := s.commitsOf(branch)
	s.expect(http.StatusBadRequest, "POST", provider+"/clusters/f/move", `{"gitOpsType":"s3"}`)
	s.expect(http.StatusBadRequest, "POST", provider+"/clusters/f/move", `{"gitOpsType":"nonsense"}`)
	s.expect(http.StatusAccepted, "POST", provider+"/clusters/f/move", `{"gitOpsType":"argocd"}`)
	s.moved("f")
	if now := s.idOf(branch + ":clusters/edge+f/context/" + id + "/app"); now != apps {
		t.Errorf("the apps' folder went from %s to %s", apps, now)
	}
	if n := atoi(s.commitsOf(branch)) - atoi(before); n != 1 {
		t.Errorf("%d commits, want one", n)
	}
	changed, err := s.bare.Git(t.Context(), "", "diff", "--name-only", branch+"~1", branch)
	s.must("diff", err)
	for _, path := range strings.Fields(changed) {
		if strings.Contains(path, "/app/") {
			t.Errorf("%s was changed", path)
		}
	}
	for _, path := range s.files(branch) {
		if strings.Contains(path, "edge+f/kust") {
			t.Errorf("%s of the former type is still there", path)
		}
	}
	g.act("terminate")
	g.becomes("Terminated")
	s.wantTree()
}

// Faults and kills during a move: the cluster arrives, is never in neither place, and each
// place gets one commit.
func TestAMoveSurvivesFaults(t *testing.T) {
	t.Parallel()
	points := []string{
		"documents.put.before", "documents.put.after", "etcd.move.before", "etcd.move.after",
		"git.head.after", "git.commit.before", "git.commit.after", "git.answer", "etcd.settle.before", "etcd.settle.after",
	}
	actions := []string{"kill"}
	if whole() {
		actions = append(actions, "error", "error(3 times)", "delay", "kill(after 1)", "kill(after 2)")
	}
	var id string
	var g testGroup
	v := newCrashStage(t, func(s *testStage) {
		g = s.shardsFleet("cluster", "a", "b")
		id = g.becomes("Instantiated").States.StatusCtxID
	})
	file, from := object("a", id, "web"), "main-s000"
	n := 100
	for _, action := range actions {
		for _, point := range points {
			n++
			shard := fmt.Sprintf("s%03d", n)
			to := "main-" + shard
			before := atoi(v.commitsOf(from))
			always := v.neverHomeless(file, from, to)
			v.arm(point + "=" + action)
			v.moveUntilAccepted("a", shard)
			v.movedAtLast("a", shard)
			v.fired()
			if !always() {
				t.Errorf("%s %s: for a moment the cluster was in neither place", point, action)
			}
			if !v.holdsOn(to, file) || v.holdsOn(from, file) || v.commitsOf(to) != "1" || atoi(v.commitsOf(from)) != before+1 {
				t.Errorf("%s %s: %s has %s commits and %v, %s went from %d to %s", point, action, to, v.commitsOf(to), v.files(to), from, before, v.commitsOf(from))
			}
			if a, b := v.idOf("clusters/edge+a:clusters"), v.idOf(to+":clusters"); a != b {
				t.Errorf("%s %s: the cluster reads %s, and its place holds %s", point, action, a, b)
			}
			from = to
		}
	}
}

// moveUntilAccepted asks for a move until that is answered.
func (v *crashStage) moveUntilAccepted(cluster, shard string) {
	v.Helper()
	v.eventually("the move is accepted", func() string {
		a, err := v.try(request("POST", provider+"/clusters/"+cluster+"/move", `{"gitOpsShard":"`+shard+`"}`))
		if err != nil || a.Status != http.StatusAccepted && a.Status != http.StatusOK {
			return fmt.Sprint(a, err)
		}
		return ""
	})
}

func (v *crashStage) movedAtLast(cluster, shard string) {
	v.Helper()
	v.eventually("the cluster has moved", func() string {
		a, err := v.try(request("GET", provider+"/clusters/"+cluster+"/move", ""))
		var m v2.ClusterMove
		if err != nil || a.Status != http.StatusOK || json.Unmarshal([]byte(a.Body), &m) != nil || !m.Done || m.To.Shard != shard {
			return fmt.Sprint(a, err)
		}
		return ""
	})
}

// request is one with a JSON body, unless that is empty.
func request(method, path, body string) client.Request {
	r := client.Request{Method: method, Path: path}
	if body != "" {
		r.Body = client.JSON([]byte(body))
	}
	return r
}

// While the reconciler still reads the old place, a move can be turned back, and everything
// goes on there.
func TestF12AnAbortedMoveLeadsBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.shardsFleet("shard", "a", "b", "c")
	file := object("a", g.becomes("Instantiated").States.StatusCtxID, "web")
	always := s.neverHomeless(file, "main-s000", "main-s007")
	s.expect(http.StatusAccepted, "POST", provider+"/clusters/a/move", `{"gitOpsShard":"s007"}`)
	s.eventually("the move waits", func() string { return unless(s.moving("a").Conditions[1].Status, "True") })
	s.eventually("the move is aborted", func() string {
		return unless(s.do("POST", provider+"/clusters/a/move", `{"abort":true}`).Status, http.StatusAccepted)
	})
	s.eventually("the way back waits for its end", func() string {
		if m := s.moving("a"); m.Number != 2 || m.To.Shard != "s000" || !strings.Contains(m.Error, "reads branch main-s000") {
			return fmt.Sprintf("%+v", m)
		}
		return ""
	})
	s.expect(http.StatusAccepted, "POST", provider+"/clusters/a/move", `{"finish":true}`)
	m := s.moved("a")
	if !always() || m.Number != 2 || s.holdsOn("main-s007", file) || !s.holdsOn("main-s000", file) {
		t.Errorf("the move is %+v; the new place holds %v, the old one %v", m, s.files("main-s007"), s.files("main-s000"))
	}
	s.expect(http.StatusConflict, "POST", provider+"/clusters/a/move", `{"abort":true}`)
	s.repack("web", configMap+"  more: \"yes\"\n")
	g.expect(http.StatusAccepted, "POST", g.path+"/update", "")
	s.eventually("the update is in the old place", func() string {
		text, _ := s.read.file(s.Context(), "main-s000", file)
		return unless(fmt.Sprint(strings.Contains(text, "more")), "true")
	})
	g.becomes("Instantiated")
}
