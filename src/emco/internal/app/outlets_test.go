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
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/emco-orchestrator/emco/src/emco/internal/sink/s3/s3test"
)

// ociRegistry is a real registry.
type ociRegistry struct {
	*testStage
	inner atomic.Pointer[http.Handler]
}

func newDepot(s *testStage) *ociRegistry {
	d := &ociRegistry{testStage: s}
	d.empty()
	return d
}

func (d *ociRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*d.inner.Load()).ServeHTTP(w, r)
}

func (d *ociRegistry) empty() {
	h := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	d.inner.Store(&h)
}

func (d *ociRegistry) keys(url string) string { return fmt.Sprintf(`{"url":%q}`, url+"/fleet/edge") }

func (d *ociRegistry) files(cluster string) map[string]string {
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

func (d *ociRegistry) fetch(path string) []byte {
	d.Helper()
	answer := httptest.NewRecorder()
	d.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/v2/fleet/edge"+path, nil))
	if answer.Code != http.StatusOK {
		d.Fatalf("GET %s: %d %s", path, answer.Code, answer.Body)
	}
	return answer.Body.Bytes()
}

// s3Bucket is a bucket of a real S3 server.
type s3Bucket struct {
	*testStage
	*httputil.ReverseProxy
	server *s3test.Server
}

const (
	storeBucket = "fleet"
	storePrefix = "edge/north/"
)

func newVault(s *testStage) *s3Bucket {
	s.Helper()
	v := &s3Bucket{testStage: s, server: s3test.Start(s.T)}
	v.server.Make(storeBucket)
	to, err := url.Parse(v.server.URL)
	v.must("read the address", err)
	v.ReverseProxy = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // it is signed
	}}
	return v
}

func (v *s3Bucket) empty() { v.server.Empty(storeBucket) }

func (v *s3Bucket) keys(url string) string {
	return fmt.Sprintf(`{"endpoint":%q},{"bucket":%q},{"prefix":%q},{"accessKey":%q},{"secretKey":%q}`,
		url, storeBucket, storePrefix, s3test.AccessKey, s3test.SecretKey)
}

func (v *s3Bucket) files(cluster string) map[string]string {
	v.Helper()
	out := map[string]string{}
	for key, o := range v.server.Read(storeBucket, storePrefix+"clusters/edge+"+cluster+"/") {
		out[strings.TrimPrefix(key, storePrefix)] = o.Text
	}
	return out
}
