package kube_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
)

// requestInterceptor sees each request on its way to the cluster. It may answer one itself.
type requestInterceptor func(*http.Request) *http.Response

// connectThrough connects to the lab's cluster through an interceptor.
func (l *testCluster) connectThrough(i requestInterceptor) *kube.Cluster {
	l.t.Helper()
	c, err := kube.New(kube.Options{Wrap: func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if answer := i(r); answer != nil {
				answer.Request = r
				return answer, nil
			}
			return next.RoundTrip(r)
		})
	}}).Connect(l.kubeconfig)
	if err != nil {
		l.t.Fatalf("Connect: %v", err)
	}
	l.t.Cleanup(c.Close)
	return c
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// refusalOf is an API server's refusal.
func refusalOf(code int, reason metav1.StatusReason) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

// changeOnDelete returns an interceptor that merges a patch into a ConfigMap of the lab just
// before it is deleted, for the first time.
func (l *testCluster) changeOnDelete(name, patch string) requestInterceptor {
	var once sync.Once
	return func(r *http.Request) *http.Response {
		if r.Method == http.MethodDelete && path.Base(r.URL.Path) == name {
			once.Do(func() {
				if _, err := l.at(configMaps, l.ns).Patch(l.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
					l.t.Error(err)
				}
			})
		}
		return nil
	}
}

// Between the look at an object and its deletion another app may take it over.
func TestAnObjectThatIsTakenOverBeforeItsDeletionStays(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	o := appObject("app", l.configMap("a"), nil)
	l.apply(kube.AppState{App: "app", Desired: []manifest.Object{o}})
	c := l.connectThrough(l.changeOnDelete("a", `{"metadata":{"labels":{"emco/deployment-id":"42-other"}}}`))
	got, err := c.Remove(t.Context(), "42", "app", ids(o))
	if err != nil || got.Pruned != 0 || len(got.Findings) != 1 || !strings.Contains(got.Findings[0], "no longer has the label") {
		t.Errorf("Remove = %+v, %v; want nothing pruned and a finding", got, err)
	}
	if l.get(configMaps, l.ns, "a") == nil {
		t.Error("the object of the other app was deleted")
	}
}

func TestAnObjectThatChangesBeforeItsDeletionIsDeleted(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	o := appObject("app", l.configMap("a"), nil)
	l.apply(kube.AppState{App: "app", Desired: []manifest.Object{o}})
	got, err := l.connectThrough(l.changeOnDelete("a", `{"data":{"k":"changed"}}`)).Remove(t.Context(), "42", "app", ids(o))
	if err != nil || got.Pruned != 1 || l.get(configMaps, l.ns, "a") != nil {
		t.Errorf("Remove = %+v, %v; want the object deleted", got, err)
	}
}

// Objects are deleted in the reverse order of their application, namespaces last, each with
// its dependents.
func TestDeletionIsInReverseOrder(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	inner := l.ns + "-inner"
	service := appObject("app", manifest.ID{Version: "v1", Kind: "Service", Namespace: l.ns, Name: "x"}, map[string]any{
		"spec": map[string]any{"ports": []any{map[string]any{"port": 80}}},
	})
	secret := appObject("app", manifest.ID{Version: "v1", Kind: "Secret", Namespace: l.ns, Name: "x"}, nil)
	configMap := appObject("app", l.configMap("x"), nil)
	ns := appObject("app", namespace(inner), nil)
	l.cleanup(namespaces, ns.ID)
	l.apply(kube.AppState{App: "app", Desired: []manifest.Object{ns, secret, configMap, service}})
	var mu sync.Mutex
	var deleted []string
	c := l.connectThrough(func(r *http.Request) *http.Response {
		if r.Method != http.MethodDelete {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(body), `"propagationPolicy":"Background"`) {
			t.Errorf("%s is deleted by %s, %v; want its dependents deleted, too", r.URL.Path, body, err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		mu.Lock()
		defer mu.Unlock()
		deleted = append(deleted, path.Base(path.Dir(r.URL.Path)))
		return nil
	})
	if _, err := c.Remove(t.Context(), "42", "app", ids(ns, service, secret, configMap)); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	if want := []string{"services", "configmaps", "secrets", "namespaces"}; !slices.Equal(deleted, want) {
		t.Errorf("deleted were %q, want %q", deleted, want)
	}
}

func TestAnObjectThatIsBeingDeletedIsNotDeletedAgain(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	o := appObject("app", l.configMap("held"), nil)
	l.apply(kube.AppState{App: "app", Desired: []manifest.Object{o}})
	l.addFinalizer("held")
	for _, want := range []int{1, 0} {
		if got, err := l.cluster.Remove(t.Context(), "42", "app", ids(o)); err != nil || got.Pruned != want {
			t.Errorf("Remove = %+v, %v; want %d pruned", got, err, want)
		}
	}
}

// An object that two groups serve is one object: it is not deleted in one group while it
// is wanted in the other.
func TestAnObjectThatTwoGroupsServeStays(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	old := manifest.ID{Version: "v1", Kind: "Event", Namespace: l.ns, Name: "e"}
	now := appObject("app", manifest.ID{Group: "events.k8s.io", Version: "v1", Kind: "Event", Namespace: l.ns, Name: "e"}, map[string]any{
		"eventTime": "2026-11-22T12:00:00.000000Z", "reportingController": "example.org/test", "reportingInstance": "test",
		"action": "Testing", "reason": "Testing", "type": "Normal",
		"regarding": map[string]any{"kind": "ConfigMap", "namespace": l.ns, "name": "x"},
	})
	got := l.apply(kube.AppState{App: "app", Desired: []manifest.Object{now}, Previous: []manifest.ID{old}})
	events := schema.GroupVersionResource{Version: "v1", Resource: "events"}
	if got.Applied != 1 || got.Pruned != 0 || l.get(events, l.ns, "e") == nil {
		t.Errorf("Apply = %+v, want the event applied and still there", got)
	}
}

// A kind that discovery omits may have a server that is down. Its objects are not forgotten.
func TestAKindWhoseServerIsDownIsUnavailable(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	c := l.connectThrough(func(r *http.Request) *http.Response {
		if r.URL.Path == "/apis/down.example.org/v1" {
			return refusalOf(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
		}
		return nil
	})
	id := manifest.ID{Group: "down.example.org", Version: "v1", Kind: "Thing", Namespace: l.ns, Name: "x"}
	if got, err := c.Remove(t.Context(), "42", "app", []manifest.ID{id}); !errs.Is(err, errs.Unavailable) {
		t.Errorf("Remove = %+v, %v; want Unavailable", got, err)
	}
}

// Without its definitions nothing of an app is applied.
func TestARefusedDefinitionEndsTheRun(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	c := l.connectThrough(func(r *http.Request) *http.Response {
		if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/customresourcedefinitions/") {
			return refusalOf(http.StatusForbidden, metav1.StatusReasonForbidden)
		}
		return nil
	})
	crd := appObject("app", manifest.ID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "widgets." + l.ns + ".example.org"}, nil)
	_, err := c.Apply(t.Context(), kube.AppState{Deployment: "42", App: "app", CRDs: []manifest.Object{crd}, Desired: []manifest.Object{appObject("app", l.configMap("a"), nil)}})
	if !errs.Is(err, errs.Forbidden) || l.get(configMaps, l.ns, "a") != nil {
		t.Errorf("Apply: %v; want Forbidden, and no object applied", err)
	}
}
