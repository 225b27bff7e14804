package flux

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheManifestOfABootstrap(t *testing.T) {
	for _, c := range []struct {
		name  string
		sync  Sync
		kinds []string
		want  []string
	}{
		{
			"with a password",
			Sync{URL: "http://h/r.git", Branch: "b", Path: "clusters/c1", Interval: 1500 * time.Millisecond, User: "u", Password: `p"w`},
			[]string{"Secret", "GitRepository", "Kustomization"},
			[]string{`"branch":"b"`, `"path":"./clusters/c1"`, `"interval":"1500ms"`, `"password":"p\"w"`, `"secretRef":{"name":"flux-system"}`},
		},
		{
			"with nothing but a repository",
			Sync{URL: "http://h/r.git"},
			[]string{"GitRepository", "Kustomization"},
			[]string{`"branch":"main"`, `"path":"./"`, `"interval":"1000ms"`, `"interval":"1000ms","path"`},
		},
		{
			"with rare comparisons",
			Sync{URL: "http://h/r.git", Interval: 2 * time.Second, Drift: 10 * time.Minute},
			[]string{"GitRepository", "Kustomization"},
			[]string{`"interval":"2000ms","ref"`, `"interval":"600000ms","path"`, `"retryInterval":"2000ms"`},
		},
	} {
		text, err := c.sync.manifest()
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Items []struct{ Kind string } }
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, item := range list.Items {
			kinds = append(kinds, item.Kind)
		}
		if !slices.Equal(kinds, c.kinds) {
			t.Errorf("%s: kinds %v, want %v", c.name, kinds, c.kinds)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s lacks %s", c.name, text, want)
			}
		}
	}
	if _, err := (Sync{}).manifest(); err == nil {
		t.Error("manifest without a url: no error")
	}
}

func TestOnlyTheSourceControllerServesArtifacts(t *testing.T) {
	o := Options{Concurrent: 3}
	storage := "--storage-addr=127.0.0.1:20002"
	source, kustomize := o.args("/bed/c1/flux", "source-controller", 20001, 20002), o.args("/bed/c1/flux", "kustomize-controller", 20001, 20002)
	if !slices.Contains(source, storage) || slices.Contains(kustomize, storage) {
		t.Errorf("%s belongs to the source-controller only: %q, %q", storage, source, kustomize)
	}
	for _, want := range []string{"--health-addr=127.0.0.1:20001", "--concurrent=3"} {
		if !slices.Contains(source, want) || !slices.Contains(kustomize, want) {
			t.Errorf("arguments lack %s: %q, %q", want, source, kustomize)
		}
	}
}
