package app_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// depot is a real registry, which can be emptied and broken.
type depot struct {
	*stage
	url    string
	inner  atomic.Pointer[http.Handler]
	broken atomic.Bool
}

func (s *stage) depot() *depot {
	s.Helper()
	d := &depot{stage: s}
	d.empty()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.broken.Load() {
			http.Error(w, "broken", http.StatusBadGateway)
			return
		}
		(*d.inner.Load()).ServeHTTP(w, r)
	}))
	s.Cleanup(web.Close)
	d.url = web.URL
	return d
}

// empty has the registry lose everything.
func (d *depot) empty() {
	h := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	d.inner.Store(&h)
}

// reader registers a cluster that reads its artifact.
func (d *depot) reader(name string) {
	d.Helper()
	d.expect(201, "POST", provider+"/cluster-sync-objects", fmt.Sprintf(
		`{"metadata":{"name":%q},"spec":{"kv":[{"url":%q}]}}`, name, d.url+"/fleet/edge"))
	d.expect(201, "POST", provider+"/clusters", fmt.Sprintf(
		`{"metadata":{"name":%q},"spec":{"gitOps":{"gitOpsType":"oci","gitOpsReferenceObject":%q}}}`, name, name))
	d.expect(201, "POST", provider+"/clusters/"+name+"/labels", `{"clusterLabel":"all"}`)
	d.member(name)
}

// files are those of a cluster's artifact.
func (d *depot) files(cluster string) map[string]string {
	d.Helper()
	var m struct{ Layers []struct{ Digest string } }
	d.must("read the manifest", json.Unmarshal(d.fetch("/manifests/edge_"+cluster), &m))
	zip, err := gzip.NewReader(bytes.NewReader(d.fetch("/blobs/" + m.Layers[0].Digest)))
	d.must("open the layer", err)
	out := map[string]string{}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		d.must("read the layer", err)
		text, err := io.ReadAll(r)
		d.must("read the layer", err)
		out[h.Name] = string(text)
	}
}

func (d *depot) fetch(path string) []byte {
	d.Helper()
	res, err := http.Get(d.url + "/v2/fleet/edge" + path)
	d.must("ask the registry", err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	d.must("ask the registry", err)
	if res.StatusCode != http.StatusOK {
		d.Fatalf("GET %s: %d %s", path, res.StatusCode, text)
	}
	return text
}

func (d *depot) wantFiles(cluster string, want ...string) {
	d.Helper()
	want = append(want, "clusters/edge+"+cluster+"/emco.yaml")
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(d.files(cluster))); !slices.Equal(got, want) {
		d.Errorf("the artifact of %s holds\n%s\nwant\n%s", cluster, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestPublishedFoldersEndToEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a")
	d := s.depot()
	d.reader("o1")
	d.reader("o2")
	s.onboard("web")
	autumn := s.group("autumn", place{"web": nil})
	autumn.act("instantiate")
	first := autumn.becomes("Instantiated").States.StatusCtxID
	paths := func(cluster, id, app string) []string {
		root := "clusters/edge+" + cluster
		return []string{root + "/kust" + id + ".yaml", root + "/context/" + id + "/kustomization.yaml", object(cluster, id, app)}
	}
	d.wantFiles("o1", paths("o1", first, "web")...)
	if d.files("o1")[object("o1", first, "web")] != s.file(object("a", first, "web")) {
		t.Error("the artifact holds other bytes than Git")
	}

	d.empty() // the registry has lost all: the next delivery brings back what belongs there
	winter := s.group("winter", place{"web": {"o1"}})
	winter.act("instantiate")
	second := winter.becomes("Instantiated").States.StatusCtxID
	d.wantFiles("o1", append(paths("o1", first, "web"), paths("o1", second, "web")...)...)

	d.broken.Store(true)
	autumn.act("terminate")
	s.eventually("the plain cluster is cleared", func() string { return unless(len(s.tree()), 1) })
	s.eventually("the pair says why", func() string {
		if p := pair(autumn.status(), "web", "o1"); !strings.Contains(p.Error, "502") {
			return p.Phase + " " + p.Error
		}
		return ""
	})
	d.broken.Store(false)
	autumn.becomes("Terminated")
	d.wantFiles("o1", paths("o1", second, "web")...)
	winter.act("terminate")
	winter.becomes("Terminated")
	d.wantFiles("o1")
}
