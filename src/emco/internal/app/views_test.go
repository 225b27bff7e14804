package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// shards has the clusters that are registered from now on share the repository in shards
// of two, by a mode.
func (s *testStage) shards(mode string) {
	s.Helper()
	s.expect(201, "POST", provider+"/cluster-sync-objects", `{"metadata":{"name":"sharded"},"spec":{"kv":[{"url":"`+s.git.URL("fleet")+`","userName":"`+writer+`","gitToken":"`+s.token+`","branch":"`+branch+`","refMode":"`+mode+`","shardSize":"2"}]}}`)
}

// files lists the files of a branch.
func (s *testStage) files(branch string) []string {
	s.Helper()
	paths, err := s.read.paths(s.Context(), branch)
	s.must("list "+branch, err)
	return paths
}

// idOf returns the id of a branch's commit, or of an object "<branch>:<path>".
func (s *testStage) idOf(name string) string {
	s.Helper()
	id, err := s.bare.Tip(name)
	if strings.Contains(name, ":") {
		id, err = s.bare.Git(s.Context(), "", "rev-parse", name)
	}
	s.must("find "+name, err)
	return id
}

// shardsFleet registers clusters with one app on all of them. Two share a shard.
func (s *testStage) shardsFleet(mode string, clusters ...string) testGroup {
	s.Helper()
	s.expect(201, "POST", "cluster-providers", named("edge"))
	s.shards(mode)
	s.expect(201, "POST", "projects", named("shop"))
	s.expect(201, "POST", "projects/shop/logical-clouds", `{"metadata":{"name":"stores"},"spec":{"level":"0"}}`)
	for _, c := range clusters {
		s.cluster(c, "sharded")
		s.member(c)
	}
	s.expect(202, "POST", cloud+"/instantiate", "")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	g.act("instantiate")
	return g
}

// Clusters are written to their shards, one commit each, and EMCO's branch stays unchanged.
func TestAFleetInShards(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	main := s.idOf(branch)
	g := s.shardsFleet("shard", "a", "b", "c")
	id := g.becomes("Instantiated").States.StatusCtxID
	wantEqual(s, "the first shard", s.files("main-s000"), []string{object("a", id, "web"), object("b", id, "web")})
	wantEqual(s, "the second shard", s.files("main-s001"), []string{object("c", id, "web")})
	if at := s.idOf(branch); at != main {
		t.Errorf("%s was written", branch)
	}
	g.act("terminate")
	g.becomes("Terminated")
	wantEqual(s, "the second shard, emptied", s.files("main-s001"), nil)

	s.expect(http.StatusOK, "POST", provider+"/clusters/c/move", `{"gitOpsShard":"s005"}`)
	g.act("instantiate")
	s.eventually("it is installed again", func() string {
		st := g.status()
		return unless(fmt.Sprint(st.DeployedStatus, len(pairs(st))), "Instantiated3")
	})
	id = g.status().States.StatusCtxID
	wantEqual(s, "the shard that the cluster moved to", s.files("main-s005"), []string{object("c", id, "web")})
	for shard, want := range map[string]string{"main-s001": "2", "main-s005": "1"} {
		n, err := s.bare.Git(t.Context(), "", "rev-list", "--count", shard)
		s.must("count commits", err)
		if n != want {
			t.Errorf("%s has %s commits, want %s", shard, n, want)
		}
	}
}

// A cluster that reads its own branch is Applied when that branch is written: the status
// names its commit, and reports of that commit count. A branch that someone else changed
// or removed is repaired.
func TestH49AFleetWithABranchForEachCluster(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, func(c *config.Config) { c.Status.Interval = config.Duration(time.Second) })
	s.must("let status be replaced", s.bare.Config(t.Context(), "receive.denyNonFastForwards", "false"))
	g := s.shardsFleet("cluster", "a", "b", "c")
	st := g.becomes("Instantiated")
	id := st.States.StatusCtxID
	views := func(what string) {
		t.Helper()
		for cluster, shard := range map[string]string{"a": "main-s000", "b": "main-s000", "c": "main-s001"} {
			view, dir := "clusters/edge+"+cluster, "clusters/edge+"+cluster
			wantEqual(s, what+": what "+cluster+" reads", s.files(view), []string{object(cluster, id, "web")})
			if a, b := s.idOf(view+":"+dir), s.idOf(shard+":"+dir); a != b {
				t.Errorf("%s: %s shows %s, and the shard holds %s", what, cluster, a, b)
			}
			s.eventually(what+": the status names the commit that "+cluster+" reads", func() string {
				return unless(pair(g.status(), "web", cluster).Commit, s.idOf(view))
			})
		}
	}
	views("installed")

	// Objects that the agent may not read count as there when the cluster has applied the commit of its view.
	a := s.agent("a")
	unread := status.Object{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "r1-web", Status: status.Current, Unread: true}
	report := func(commit string) {
		t.Helper()
		a.seq++
		a.send(status.Report{Cluster: a.cluster, Seq: a.seq, At: time.Now(), Agent: "monitor/test", Apps: []status.App{{Label: id + "-web", Commit: commit, Objects: []status.Object{unread}}}})
	}
	says := func(want string) {
		t.Helper()
		s.eventually("the status of a", func() string {
			for _, c := range g.query("?status=ready").Apps[0].Clusters {
				if c.Cluster == "a" && len(c.Resources) == 1 {
					return unless(c.Resources[0].ReadyStatus, want)
				}
			}
			return "it is not there"
		})
	}
	report(s.idOf("main-s000")) // of the shard, which the cluster does not read
	says("NotReady")
	report(s.idOf("clusters/edge+a"))
	says("Ready")

	// Someone else changes a view, and removes another one.
	_, err := s.bare.CommitExternal(t.Context(), "clusters/edge+a", map[string]gittest.File{"clusters/edge+a/evil.yaml": {Content: "evil"}})
	s.must("change a view", err)
	_, err = s.bare.Git(t.Context(), "", "update-ref", "-d", "refs/heads/clusters/edge+c")
	s.must("remove a view", err)
	s.stop()
	s.start()
	s.eventually("the views are put right", func() string {
		out, err := s.bare.Git(t.Context(), "", "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads/clusters")
		s.must("list views", err)
		if strings.Count(out, "\n") != 2 || slices.Contains(s.files("clusters/edge+a"), "clusters/edge+a/evil.yaml") {
			return out
		}
		return ""
	})
	views("put right")
	if !strings.Contains(s.log.String(), "derived branches were repaired") {
		t.Error("the log does not name the repair")
	}

	s.repack("web", configMap+"  more: \"yes\"\n")
	before := s.idOf("clusters/edge+b")
	g.expect(http.StatusAccepted, "POST", g.path+"/update", "")
	s.eventually("the update", func() string {
		if st := g.status(); st.DeployedStatus != "Instantiated" || s.idOf("clusters/edge+b") == before {
			return fmt.Sprint(st.DeployedStatus)
		}
		return ""
	})
	views("updated")
	if n, err := s.bare.Git(t.Context(), "", "rev-list", "--count", "clusters/edge+b"); err != nil || n != "2" {
		t.Errorf("the view of b has %s commits, %v; want 2", n, err)
	}
	g.act("terminate")
	g.becomes("Terminated")
	wantEqual(s, "the view of a cluster without deployments", s.files("clusters/edge+a"), []string{"clusters/edge+a/kustomization.yaml"})
}
