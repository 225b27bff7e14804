package e2e

import (
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
)

// TestGenericActions runs the suite examples/emco/gac: c1 is a direct cluster, c2 has Flux.
func TestGenericActions(t *testing.T) {
	do := steps{TB: t}
	do.next("two clusters, one app with customizations")
	clm := newFacade(t)
	l, s := clustersOf(t), newStage(t, "-outbound.values="+clm.URL+"/v2/cluster-providers/")
	clm.behind(s.emco.URL())
	l.follow(s)
	file := func(name string) string { return example("emco", "gac", name) }
	values := s.values(map[string]any{
		"GitURL": s.git.URL(repoName), "GitUser": writer, "GitToken": s.writeToken, "Kubeconfig": l.c1.Kubeconfig(),
		"FluxSecret": flux.Namespace, "SyncInterval": "1", "Packages": s.packages("web"), "Files": example("emco", "gac", "files"),
		"ClmURL": clm.URL,
	})
	s.apply(values, file("00-clusters.yaml"), file("01-app.yaml"), file("02-deployment.yaml"), file("03-customizations.yaml"))
	s.apply(values, file("04-instantiate.yaml"))
	s.wait(group, "instantiated")
	available(t, l.c1, "r1-web")
	want := func(c int, of, path, value string) {
		t.Helper()
		on := l.c1
		if c == 2 {
			on = l.c2
		}
		eventually(t, fmt.Sprintf("%s %s on %s", of, path, on.Name()), func() error {
			got, err := on.Kubectl(t.Context(), "get", of, "-o", "jsonpath={"+path+"}")
			if err == nil && got != value {
				err = fmt.Errorf("it is %q, want %q", got, value)
			}
			return err
		})
	}
	want(1, "deployment/r1-web", ".spec.replicas", "3")
	want(2, "deployment/r1-web", ".spec.replicas", "0")
	want(2, "deployment/r1-web", ".metadata.labels.size", "small")
	want(2, "deployment/r1-web", ".spec.template.spec.containers[0].env[0].name", "CLOSED")
	want(1, "configmap/store-settings", ".data.zone", "north")
	want(2, "configmap/store-settings", ".data.zone", "south")
	want(1, "secret/till-key", ".data.key", "bm90LWEtcmVhbC1rZXk=")
	want(1, "networkpolicy/web", ".spec.podSelector.matchLabels.app\\.kubernetes\\.io/name", "web")
	if left := kubectl(t, l.c2, "get", "networkpolicy", "-o", "name"); left != "" {
		t.Errorf("c2 has %s, which is for c1", left)
	}

	do.next("an update for large stores")
	on2 := identities(t, l.c2)
	s.apply(values, file("05-update.yaml"))
	s.wait(group, "instantiated")
	want(1, "deployment/r1-web", ".spec.replicas", "4")
	if now := identities(t, l.c2); now != on2 {
		t.Errorf("objects on c2 changed:\n%s\nbefore:\n%s", now, on2)
	}

	do.next("a label whose value is read from a URL, for each cluster")
	s.apply(values, file("06-external-url.yaml"))
	s.wait(group, "instantiated")
	want(1, "deployment/r1-web", ".metadata.labels.zone", "north")
	want(2, "deployment/r1-web", ".metadata.labels.zone", "south")

	do.next("back to revision 1, while the URL does not answer")
	clm.Close()
	s.apply(values, file("07-rollback.yaml"))
	s.wait(group, "instantiated")
	want(1, "deployment/r1-web", ".spec.replicas", "3")
	want(1, "deployment/r1-web", ".metadata.labels.zone", "")
	want(2, "deployment/r1-web", ".metadata.labels.zone", "")

	do.next("terminate")
	s.terminate(group, l.c1, l.c2)
	s.sound()
	s.ctl("delete", group+"/generic-k8s-intents/store-settings/resources/web/customizations/zone")
	s.clear(values, file("00-clusters.yaml"), file("01-app.yaml"), file("02-deployment.yaml"), file("03-customizations.yaml"))
	do.next("done")
}

// facade is an address that is known before the server behind it starts.
type facade struct {
	testing.TB
	*httptest.Server
	to atomic.Pointer[url.URL]
}

func newFacade(t *testing.T) *facade {
	f := &facade{TB: t}
	f.Server = httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(f.to.Load()) }})
	t.Cleanup(f.Close)
	return f
}

// behind names the server. Call it before the first request.
func (f *facade) behind(server string) {
	f.Helper()
	to, err := url.Parse(server)
	if err != nil {
		f.Fatal(err)
	}
	f.to.Store(to)
}
