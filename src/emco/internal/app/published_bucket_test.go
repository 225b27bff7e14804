package app_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/sink/s3/s3test"
)

// vault is a bucket of a real S3 server, which can be emptied and broken.
type vault struct {
	*stage
	server *s3test.Server
	url    string
	broken atomic.Bool
}

const (
	storeBucket = "fleet"
	storePrefix = "edge/north/"
)

func (s *stage) vault() *vault {
	s.Helper()
	d := &vault{stage: s, server: s3test.Start(s.T)}
	d.server.Make(storeBucket)
	to, err := url.Parse(d.server.URL)
	d.must("read the address", err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // it is signed
	}}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.broken.Load() {
			http.Error(w, "broken", http.StatusBadGateway)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	s.Cleanup(web.Close)
	d.url = web.URL
	return d
}

// reader registers a cluster that reads its folder of the bucket.
func (d *vault) reader(name string) {
	d.Helper()
	d.expect(201, "POST", provider+"/cluster-sync-objects", fmt.Sprintf(
		`{"metadata":{"name":%q},"spec":{"kv":[{"endpoint":%q},{"bucket":%q},{"prefix":%q},{"accessKey":%q},{"secretKey":%q}]}}`,
		name, d.url, storeBucket, storePrefix, s3test.AccessKey, s3test.SecretKey))
	d.expect(201, "POST", provider+"/clusters", fmt.Sprintf(
		`{"metadata":{"name":%q},"spec":{"gitOps":{"gitOpsType":"bucket","gitOpsReferenceObject":%q}}}`, name, name))
	d.expect(201, "POST", provider+"/clusters/"+name+"/labels", `{"clusterLabel":"all"}`)
	d.member(name)
}

// files are those of a cluster's folder, without the prefix.
func (d *vault) files(cluster string) map[string]string {
	d.Helper()
	out := map[string]string{}
	for key, o := range d.server.Read(storeBucket, storePrefix+"clusters/edge+"+cluster+"/") {
		out[strings.TrimPrefix(key, storePrefix)] = o.Text
	}
	return out
}

func (d *vault) wantFiles(cluster string, want ...string) {
	d.Helper()
	want = append(want, "clusters/edge+"+cluster+"/emco.yaml")
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(d.files(cluster))); !slices.Equal(got, want) {
		d.Errorf("the bucket holds of %s\n%s\nwant\n%s", cluster, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestPublishedBucketsEndToEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a")
	d := s.vault()
	d.reader("o1")
	d.reader("o2")
	if shown := s.expect(200, "GET", provider+"/cluster-sync-objects/o1", ""); strings.Contains(shown, s3test.SecretKey) || !strings.Contains(shown, storeBucket) {
		t.Errorf("the sync object is shown as %s", shown)
	}
	s.onboard("web")
	autumn := s.group("autumn", place{"web": nil})
	autumn.act("instantiate")
	first := autumn.becomes("Instantiated").States.StatusCtxID
	paths := func(cluster, id, app string) []string {
		root := "clusters/edge+" + cluster
		return []string{root + "/kust" + id + ".yaml", root + "/context/" + id + "/kustomization.yaml", object(cluster, id, app)}
	}
	d.wantFiles("o1", paths("o1", first, "web")...)
	d.wantFiles("o2", paths("o2", first, "web")...)
	if d.files("o1")[object("o1", first, "web")] != s.file(object("a", first, "web")) {
		t.Error("the bucket holds other bytes than Git")
	}
	if pointer := d.files("o1")["clusters/edge+o1/kust"+first+".yaml"]; !strings.Contains(pointer, "path: ./"+storePrefix+"clusters/edge+o1/") || !strings.Contains(pointer, "kind: Bucket") {
		t.Errorf("the Kustomization is\n%s", pointer)
	}

	d.server.Empty(storeBucket) // all is lost: the next delivery brings back what belongs there
	winter := s.group("winter", place{"web": {"o1"}})
	winter.act("instantiate")
	second := winter.becomes("Instantiated").States.StatusCtxID
	d.wantFiles("o1", append(paths("o1", first, "web"), paths("o1", second, "web")...)...)

	d.broken.Store(true)
	autumn.act("terminate")
	s.eventually("the plain cluster is cleared", func() string { return unless(len(s.tree()), 1) })
	s.eventually("the pair says why", func() string {
		if p := pair(autumn.status(), "web", "o1"); !strings.Contains(p.Error, "502") || strings.Contains(p.Error, s3test.SecretKey) {
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
