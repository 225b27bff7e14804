package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/s3/s3test"
)

// publishServer is a real server where clusters read what is published for them.
type publishServer interface {
	http.Handler
	keys(url string) string                 // of sync objects, for clients that reach the server at that address
	files(cluster string) map[string]string // the files for a cluster, as in a Git branch
	empty()                                 // it loses everything
}

// publishStage is a stage with an outlet, behind a door that can be broken.
type publishStage struct {
	*testStage
	at     publishServer
	url    string
	broken atomic.Bool
}

func (s *testStage) publication(o publishServer) *publishStage {
	s.Helper()
	p := &publishStage{testStage: s, at: o}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.broken.Load() {
			http.Error(w, "broken", http.StatusBadGateway)
			return
		}
		o.ServeHTTP(w, r)
	}))
	s.Cleanup(web.Close)
	p.url = web.URL
	return p
}

// reader registers a cluster of a type that reads at the outlet.
func (p *publishStage) reader(name, kind string) {
	p.Helper()
	p.expect(201, "POST", provider+"/cluster-sync-objects", fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"kv":[%s]}}`, name, p.at.keys(p.url)))
	p.expect(201, "POST", provider+"/clusters", fmt.Sprintf(
		`{"metadata":{"name":%q},"spec":{"gitOps":{"gitOpsType":%q,"gitOpsReferenceObject":%q}}}`, name, kind, name))
	p.expect(201, "POST", provider+"/clusters/"+name+"/labels", `{"clusterLabel":"all"}`)
	p.member(name)
}

func (p *publishStage) wantFiles(cluster string, want ...string) {
	p.Helper()
	want = append(want, "clusters/edge+"+cluster+"/emco.yaml")
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(p.at.files(cluster))); !slices.Equal(got, want) {
		p.Errorf("of %s is published\n%s\nwant\n%s", cluster, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// paths are the files of an app of a deployment that are published for a cluster.
func paths(cluster, id, app string) []string {
	root := "clusters/edge+" + cluster
	return []string{root + "/kust" + id + ".yaml", root + "/context/" + id + "/kustomization.yaml", object(cluster, id, app)}
}

// life runs two clusters of a type that read from the outlet, and one that pulls from Git.
// The outlet gets the same files as Git, gets them back after a loss, and is empty at the
// end. A failed write is reported. look is called with the id of the first deployment while
// its files exist.
func (p *publishStage) life(kind string, look func(id string)) {
	p.Helper()
	p.fleet("a")
	p.reader("o1", kind)
	p.reader("o2", kind)
	p.onboard("web")
	autumn := p.group("autumn", appPlaces{"web": nil})
	autumn.act("instantiate")
	first := autumn.becomes("Instantiated").States.StatusCtxID
	p.wantFiles("o1", paths("o1", first, "web")...)
	p.wantFiles("o2", paths("o2", first, "web")...)
	if p.at.files("o1")[object("o1", first, "web")] != p.file(object("a", first, "web")) {
		p.Error("other bytes are published than are in Git")
	}
	look(first)
	p.carried(autumn)

	p.at.empty() // the next delivery brings back what belongs there
	winter := p.group("winter", appPlaces{"web": {"o1"}})
	winter.act("instantiate")
	second := winter.becomes("Instantiated").States.StatusCtxID
	p.wantFiles("o1", append(paths("o1", first, "web"), paths("o1", second, "web")...)...)

	p.broken.Store(true)
	autumn.act("terminate")
	p.eventually("the plain cluster is cleared", func() string { return unless(len(p.tree()), 1) })
	p.eventually("the pair reports the reason", func() string {
		if pair := pair(autumn.status(), "web", "o1"); !strings.Contains(pair.Error, "502") || strings.Contains(pair.Error, s3test.SecretKey) {
			return pair.Phase + " " + pair.Error
		}
		return ""
	})
	p.broken.Store(false)
	autumn.becomes("Terminated")
	p.wantFiles("o1", paths("o1", second, "web")...)
	winter.act("terminate")
	winter.becomes("Terminated")
	p.wantFiles("o1")
}

// carried checks that the first revision of a group names what was published of it.
func (p *publishStage) carried(g testGroup) {
	p.Helper()
	var r v2.Revision
	p.must("read a revision", json.Unmarshal([]byte(p.expect(200, "GET", g.path+"/revisions/1", "")), &r))
	digests := map[v2.ClusterKey]string{}
	for _, c := range r.Commits {
		if c.Cluster != "" && c.Branch == "" && c.Clusters == 1 && strings.Contains(c.Repository, p.url[len("http://"):]) {
			digests[c.Cluster] = c.Commit
		}
	}
	st := g.status()
	want := map[v2.ClusterKey]string{"edge+o1": pair(st, "web", "o1").Commit, "edge+o2": pair(st, "web", "o2").Commit}
	if !maps.Equal(digests, want) || len(r.Commits) != 3 || !strings.HasPrefix(want["edge+o1"], "sha256:") {
		p.Errorf("revision 1 was carried by %+v, want %v and a Git commit", r.Commits, want)
	}
}

func TestPublishedArtifactsEndToEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.publication(newDepot(s)).life("oci", func(string) {})
}

func TestPublishedBucketsEndToEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	v := newVault(s)
	s.publication(v).life("bucket", func(id string) {
		if shown := s.expect(200, "GET", provider+"/cluster-sync-objects/o1", ""); strings.Contains(shown, s3test.SecretKey) || !strings.Contains(shown, storeBucket) {
			t.Errorf("the sync object is shown as %s", shown)
		}
		pointer := v.files("o1")["clusters/edge+o1/kust"+id+".yaml"]
		if !strings.Contains(pointer, "path: ./"+storePrefix+"clusters/edge+o1/") || !strings.Contains(pointer, "kind: Bucket") {
			t.Errorf("the Kustomization is\n%s", pointer)
		}
	})
}
