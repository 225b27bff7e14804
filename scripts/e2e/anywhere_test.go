package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/e2e/program"
)

// S-03: three processes without a common disk serve the main job of the README behind a proxy that sends each
// request to the next one. Each of them answers every question with the same bytes.
func TestS03AnyProcessServesAnyRequest(t *testing.T) {
	do := steps{TB: t}
	do.next("one etcd, one key-encryption key, three processes with folders of their own, a proxy")
	s, etcd := newStageOnEtcd(t)
	kek := filepath.Join(s.dir, "kek")
	s.must("write a key", os.WriteFile(kek, []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))), 0o600))
	var all []*program.Emco
	var targets []*url.URL
	for _, name := range []string{"one", "two", "three"} {
		e, err := program.Start(t.Context(), program.Options{Bin: binaries(), Dir: filepath.Join(s.dir, name), Args: []string{
			"-etcd.endpoints", etcd, "-etcd.prefix", "/emco-" + filepath.Base(s.dir) + "/", "-lease", "3s", "-encryption.kek", "file://" + kek,
		}})
		s.must("start "+name, err)
		t.Cleanup(e.Kill)
		at, err := url.Parse(e.URL())
		s.must("read the address", err)
		all, targets = append(all, e), append(targets, at)
	}
	var turn atomic.Uint64
	answered := make([]atomic.Uint64, len(targets)) // requests by process
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(targets[turn.Add(1)%uint64(len(targets))]) },
		ModifyResponse: func(r *http.Response) error {
			for i, at := range targets {
				if r.Request.URL.Host == at.Host && r.StatusCode < http.StatusInternalServerError {
					answered[i].Add(1)
				}
			}
			return nil
		},
	})
	t.Cleanup(proxy.Close)
	ctl := func(args ...string) string {
		t.Helper()
		r := all[0].EmcoctlAt(t.Context(), proxy.URL, args...)
		if r.Code != 0 {
			t.Fatalf("emcoctl %s: exit code %d, want 0\n%s%s", strings.Join(args, " "), r.Code, r.Out, r.Err)
		}
		return r.Out
	}

	do.next("apply, deploy, change and roll back")
	values := s.values(map[string]any{
		"GitURL": s.git.URL(repoName), "GitUser": writer, "GitToken": s.writeToken,
		"Packages": s.packages("web", "cache"), "Apps": []map[string]string{{"Name": "web"}, {"Name": "cache"}},
		"Clusters": []map[string]string{{"Name": "alpha", "Label": "store"}, {"Name": "bravo", "Label": "store"}, {"Name": "charlie", "Label": "depot"}},
	})
	before := s.tree()
	docs := []string{"apply", "-v", values}
	for _, name := range []string{"00-clusters.yaml", "01-app.yaml", "02-deployment.yaml"} {
		docs = append(docs, "-f", example("01-git-fleet", name))
	}
	ctl(docs...)
	wait := func(goal string) { t.Helper(); ctl("wait", group, "--for="+goal, "--timeout="+patience.String()) }
	wait("instantiated")
	ctl("update", group, "--wait")
	ctl("rollback", group, "--revision", "1", "--wait")
	for cluster, want := range map[string]string{"alpha": "web", "bravo": "web", "charlie": "cache"} {
		if apps := appsIn(s.tree(), cluster); strings.Join(apps, " ") != want {
			t.Errorf("the folder of %s contains the apps %v, want %s", cluster, apps, want)
		}
	}
	for i := range answered {
		if answered[i].Load() == 0 {
			t.Errorf("process %d answered no request of the proxy", i+1)
		}
	}
	s.same(all)

	do.next("terminate")
	ctl("apply", group+"/terminate")
	wait("terminated")
	if now := s.tree(); !maps.Equal(now, before) {
		t.Errorf("after terminate the tree is %v, want %v", now, before)
	}
	s.sound()
	for _, e := range all {
		s.must("end", e.Stop())
	}
	do.next("done")
}

// answeredAt is the time of an answer in a view.
var answeredAt = regexp.MustCompile(`^\{"at":"[^"]*",`)

// same wants the same bytes from all processes, documents, packages, states and views.
func (s *testStage) same(all []*program.Emco) {
	s.Helper()
	app, _, _ := strings.Cut(group, "/deployment-intent-groups/")
	for path, accept := range map[string]string{
		"projects": "", "cluster-providers/edge/clusters": "", "cluster-providers/edge/clusters?withLabels=true": "", app + "/apps": "",
		app + "/apps/web": "application/octet-stream", group: "", group + "/revisions": "",
		group + "/status": "", group + "/status?status=deployed&output=detail": "", "views/deployments": "", "views/clusters": "", "views/search?q=alpha": "",
	} {
		eventually(s, "the same bytes of "+path, func() error { // a view may follow a moment later
			var first []byte
			for i, e := range all {
				got, err := bytesOf(s, e.URL()+"/v2/"+path, accept)
				if err != nil {
					return err
				}
				got = answeredAt.ReplaceAll(got, nil)
				if i == 0 {
					first = got
				}
				if !bytes.Equal(got, first) {
					return fmt.Errorf("process %d answers\n%.2000s\nand the first\n%.2000s", i+1, got, first)
				}
			}
			return nil
		})
	}
}

// bytesOf reads an answer that must be 200.
func bytesOf(t testing.TB, at, accept string) ([]byte, error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", at, res.Status, body)
	}
	return body, err
}
