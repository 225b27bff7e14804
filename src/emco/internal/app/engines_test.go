package app_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// enginePairs are clusters that are alike but for the engine by which they are written: direct, and
// fast-import.
var enginePairs = [][2]string{{"a", "x"}, {"b", "y"}, {"c", "z"}, {"d", "w"}}

// engines are two repositories that hold the same, written by one engine each.
type engines struct {
	*testStage
	direct, program gittest.Bare
	members         int // pairs of clusters that are registered
}

func newEngines(t *testing.T) *engines {
	t.Helper()
	s := newStage(t)
	program, err := s.git.Seed(t.Context(), "program", branch)
	s.must("make the second repository", err)
	e := &engines{testStage: s, direct: s.bare, program: program}
	s.expect(201, "POST", "cluster-providers", named("edge"))
	for _, engine := range []string{"direct", "fast-import"} {
		repo := map[string]string{"direct": "fleet", "fast-import": "program"}[engine]
		s.expect(201, "POST", provider+"/cluster-sync-objects", `{"metadata":{"name":"`+engine+`"},"spec":{"kv":[{"url":"`+s.git.URL(repo)+`","userName":"`+writer+
			`","gitToken":"`+s.token+`","branch":"`+branch+`","refMode":"cluster","shardSize":"2","engine":"`+engine+`"}]}}`)
	}
	for _, b := range []gittest.Bare{e.direct, e.program} {
		s.must("let branches be removed", b.Config(t.Context(), "receive.denyDeletes", "false"))
	}
	s.expect(201, "POST", "projects", named("shop"))
	s.expect(201, "POST", "projects/shop/logical-clouds", `{"metadata":{"name":"stores"},"spec":{"level":"0"}}`)
	return e
}

// join registers one more cluster of each engine.
func (e *engines) join() {
	e.Helper()
	for i, engine := range []string{"direct", "fast-import"} {
		name := enginePairs[e.members][i]
		e.cluster(name, engine)
		e.member(name)
	}
	e.members++
}

// trees returns what a repository holds of clusters: the names of the trees of their directories, in
// shards and in the branches that they read.
func (e *engines) trees(b gittest.Bare) map[string]string {
	e.Helper()
	refs, err := b.Git(e.Context(), "", "for-each-ref", "--format=%(refname:short)", "refs/heads/main-*", "refs/heads/clusters")
	e.must("list branches", err)
	out := map[string]string{}
	for _, ref := range strings.Fields(refs) {
		kind, _, _ := strings.Cut(ref, "-s")
		kind, _, _ = strings.Cut(kind, "/")
		listing, err := b.Git(e.Context(), "", "ls-tree", ref, "clusters/")
		e.must("list "+ref, err)
		for line := range strings.Lines(listing) {
			fields := strings.Fields(line)
			out[kind+" "+strings.TrimPrefix(fields[3], "clusters/edge+")] = fields[2]
		}
	}
	return out
}

// equal expects that both repositories hold the same trees, in so many places.
func (e *engines) equal(when string, places int) {
	e.Helper()
	direct, program := e.trees(e.direct), e.trees(e.program)
	want := map[string]string{}
	for _, pair := range enginePairs {
		for _, kind := range []string{"main", "clusters"} {
			if tree, there := direct[kind+" "+pair[0]]; there {
				want[kind+" "+pair[1]] = tree
			}
		}
	}
	if !maps.Equal(program, want) || len(want) != places || len(want) != len(direct) {
		e.Errorf("%s: fast-import has made %v, want %v as the direct engine, in %d places", when, program, want, places)
	}
}

// A deployment goes through its whole life by both engines, and comes to the same trees: with
// shards, with branches of clusters, with a cluster that comes later, and until the branches
// of clusters that are deregistered are gone.
func TestBothEnginesComeToTheSame(t *testing.T) {
	t.Parallel()
	e := newEngines(t)
	for range 3 {
		e.join()
	}
	e.expect(202, "POST", cloud+"/instantiate", "")
	e.onboard("web", "db")
	g := e.group("autumn", appPlaces{"web": nil, "db": nil})
	g.act("instantiate")
	g.becomes("Instantiated")
	e.equal("instantiated", 6)

	e.repack("web", configMap+"  more: \"yes\"\n")
	g.act("update")
	g.becomes("Instantiated")
	e.equal("updated", 6)

	e.join()
	g.act("update")
	g.becomes("Instantiated")
	e.equal("with a cluster more", 8)

	g.act("terminate")
	g.becomes("Terminated")
	e.equal("terminated", 4) // the branches of clusters hold what makes reconcilers remove the rest

	e.expect(http.StatusAccepted, "POST", cloud+"/terminate", "")
	for _, pair := range enginePairs {
		for _, c := range pair {
			e.eventually(c+" is no part of the cloud", func() string {
				return unless(e.do("DELETE", cloud+"/cluster-references/"+c, "").Status/100, 2)
			})
			e.expect(http.StatusNoContent, "DELETE", provider+"/clusters/"+c+"/labels/all", "")
			e.expect(http.StatusNoContent, "DELETE", provider+"/clusters/"+c, "")
		}
	}
	for _, b := range []gittest.Bare{e.direct, e.program} {
		e.eventually("the branches of clusters are gone", func() string {
			refs, err := b.Git(e.Context(), "", "for-each-ref", "--format=%(refname:short)", "refs/heads/clusters")
			e.must("list branches", err)
			return refs
		})
		e.must("git fsck --strict", b.Fsck(e.Context()))
		commits, err := b.Git(e.Context(), "", "rev-list", "--min-parents=2", "--all")
		e.must("list commits", err)
		if commits != "" {
			e.Errorf("commits with two parents: %s", commits)
		}
	}
}
