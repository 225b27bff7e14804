// Package kubetest is an API server in memory, for tests that cannot start a real one.
//
// Objects have versions, field managers, finalizers and namespaces, and requests are refused
// as a real API server refuses them: by preconditions, by conflicts of server-side apply
// (which is Kubernetes' own implementation), because of a namespace that is missing or a
// kind that is not served. Definitions of custom kinds take effect. There are no
// controllers, no defaults, and hardly any validation. Tests of emco's
// packages sink/kube and status/kubewatch use a real API server instead if EMCO_TEST_KUBECONFIG names its kubeconfig.
package kubetest

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is a kind that the server serves.
type kind struct {
	schema.GroupVersionKind
	plural     string
	namespaced bool
}

func (k kind) resource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.plural}
}

// stored is the resource under which objects are kept. Events are served by two groups.
func (k kind) stored() schema.GroupResource {
	if k.Kind == "Event" {
		return schema.GroupResource{Resource: k.plural}
	}
	return k.resource()
}

// builtin are the kinds that are there from the start.
var builtin = []kind{
	{schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, "namespaces", false},
	{schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "configmaps", true},
	{schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, "secrets", true},
	{schema.GroupVersionKind{Version: "v1", Kind: "Service"}, "services", true},
	{schema.GroupVersionKind{Version: "v1", Kind: "Node"}, "nodes", false},
	{schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "pods", true},
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, "deployments", true},
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}, "daemonsets", true},
	{schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, "jobs", true},
	{schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, "clusterroles", false},
	{schema.GroupVersionKind{Version: "v1", Kind: "Event"}, "events", true},
	{schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}, "events", true},
	{crdKind, "customresourcedefinitions", false},
}

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// Server is a running API server. Make it with Start.
type Server struct {
	http  *httptest.Server
	ended chan struct{} // closed at the end of the test: watches end, also those that begin later

	// All below is guarded by mu.
	mu      sync.Mutex
	token   string // of the administrator
	kinds   []kind
	objects map[objectKey]*unstructured.Unstructured // never changed in place
	version uint64                                   // of the last change
	events  []event                                  // all changes, for watches
	changed chan struct{}                            // closed with the next change
}

type objectKey struct {
	schema.GroupResource
	namespace, name string
}

// Start starts a server that ends with the test.
func Start(t testing.TB) *Server {
	s := start()
	t.Cleanup(func() {
		close(s.ended)
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

func start() *Server {
	s := &Server{
		ended: make(chan struct{}),
		token: "of-the-administrator", kinds: slices.Clone(builtin), objects: map[objectKey]*unstructured.Unstructured{}, changed: make(chan struct{}),
	}
	s.http = httptest.NewUnstartedServer(s)
	s.http.EnableHTTP2 = true
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0) // tests cut connections on purpose
	s.http.StartTLS()
	return s
}

// Kubeconfig returns access with all rights. A request that impersonates anyone has none.
func (s *Server) Kubeconfig() []byte {
	s.mu.Lock()
	token := s.token
	s.mu.Unlock()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "c", "user": "u"}}},
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{"server": s.http.URL, "certificate-authority-data": ca}}},
		"users":    []any{map[string]any{"name": "u", "user": map[string]any{"token": token}}},
	})
	if err != nil {
		panic(err) // strings and bytes only
	}
	return text
}

// Rotate makes the credentials of all kubeconfigs invalid, and cuts their connections.
func (s *Server) Rotate() {
	s.mu.Lock()
	s.token += "-next"
	s.mu.Unlock()
	s.http.CloseClientConnections()
}

// request is a request about objects of a kind.
type request struct {
	*http.Request
	kind
	namespace, name, subresource string
}

func (r request) key() objectKey { return objectKey{r.stored(), r.namespace, r.name} }

func (r request) manager() string {
	if m := r.URL.Query().Get("fieldManager"); m != "" {
		return m
	}
	return "unknown"
}

// ServeHTTP answers discovery, and requests about objects.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	token := s.token
	s.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+token {
		write(w, http.StatusUnauthorized, apierrors.NewUnauthorized("no such token").Status())
		return
	}
	s.mu.Lock()
	answer, discovered := s.discover(r.URL.Path)
	req, found := s.find(r)
	s.mu.Unlock()
	switch {
	case discovered:
		write(w, http.StatusOK, answer)
	case !found:
		http.NotFound(w, r)
	case r.Header.Get("Impersonate-User") != "":
		fail(w, apierrors.NewForbidden(req.resource(), req.name, errors.New("no rights")))
	case r.Method == http.MethodGet && req.name == "" && r.URL.Query().Get("watch") != "":
		s.watch(w, req)
	case r.Method == http.MethodGet && req.name == "":
		s.list(w, req)
	default:
		o, err := s.object(req)
		if err != nil {
			fail(w, err)
			return
		}
		if o.GroupVersionKind() != req.GroupVersionKind {
			o = o.DeepCopy()
			o.SetGroupVersionKind(req.GroupVersionKind)
		}
		write(w, http.StatusOK, shown(req, o))
	}
}

// find parses the path of a request about objects.
func (s *Server) find(r *http.Request) (request, bool) {
	part := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	gv := schema.GroupVersion{}
	switch {
	case len(part) > 2 && part[0] == "api":
		gv.Version, part = part[1], part[2:]
	case len(part) > 3 && part[0] == "apis":
		gv.Group, gv.Version, part = part[1], part[2], part[3:]
	default:
		return request{}, false
	}
	out := request{Request: r}
	if part[0] == "namespaces" && len(part) > 2 {
		out.namespace, part = part[1], part[2:]
	}
	for i, to := range []*string{&out.plural, &out.name, &out.subresource} {
		if i < len(part) {
			*to = part[i]
		}
	}
	for _, k := range s.kinds {
		if k.GroupVersion() == gv && k.plural == out.plural {
			out.kind = k
			return out, true
		}
	}
	return out, false
}

// discover answers requests about the version of the server and the kinds that it serves.
func (s *Server) discover(path string) (answer any, ok bool) {
	switch path {
	case "/version":
		return map[string]string{"major": "1", "minor": "37", "gitVersion": "v1.37.0"}, true
	case "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}, true
	case "/apis":
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, k := range s.kinds {
			v := metav1.GroupVersionForDiscovery{GroupVersion: k.GroupVersion().String(), Version: k.Version}
			if known := slices.ContainsFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == k.Group }); k.Group != "" && !known {
				list.Groups = append(list.Groups, metav1.APIGroup{Name: k.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
			}
		}
		return list, true
	}
	gv, err := schema.ParseGroupVersion(strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/"))
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
	for _, k := range s.kinds {
		if err == nil && k.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: k.plural, Kind: k.Kind, Namespaced: k.namespaced, Verbs: metav1.Verbs{"get", "list", "watch", "create", "update", "patch", "delete"},
			})
		}
	}
	return list, len(list.APIResources) > 0
}

// shown is an object as the request wants it: whole, or its metadata only.
func shown(r request, o *unstructured.Unstructured) any {
	if !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		return o
	}
	m := &unstructured.Unstructured{Object: map[string]any{"metadata": o.Object["metadata"]}}
	m.SetGroupVersionKind(schema.GroupVersionKind{Group: "meta.k8s.io", Version: "v1", Kind: "PartialObjectMetadata"})
	return m
}

func fail(w http.ResponseWriter, err error) {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		s = apierrors.NewInternalError(err)
	}
	status := s.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	write(w, int(status.Code), status)
}

func write(w http.ResponseWriter, code int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		code, text = http.StatusInternalServerError, fmt.Append(nil, err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text) // a client that left needs no answer
}
