package arctest

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// place is a path below a cluster, in lower case.
var place = regexp.MustCompile(`^/subscriptions/` + Subscription + `/resourcegroups/` + Group +
	`/providers/microsoft.kubernetes/connectedclusters/([^/]+)/providers/microsoft.kubernetesconfiguration/(fluxconfigurations|extensions)(?:/([^/]+))?(?:/operations/([^/]+))?$`)

// versions are the supported versions of the API.
var versions = []string{"2023-05-01"}

// manager is the resource manager. The caller holds mu.
func (s *Server) manager(w http.ResponseWriter, r *http.Request) {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer || !s.tokens[token] {
		refuse(w, http.StatusUnauthorized, "InvalidAuthenticationToken", "the access token is not valid")
		return
	}
	if !slices.Contains(versions, r.URL.Query().Get("api-version")) {
		refuse(w, http.StatusBadRequest, "NoRegisteredProviderFound", "that version of the API is not supported")
		return
	}
	at := place.FindStringSubmatch(strings.ToLower(r.URL.Path))
	if at == nil {
		refuse(w, http.StatusNotFound, "SubscriptionNotFound", "there is nothing at "+r.URL.Path)
		return
	}
	segments := strings.Split(r.URL.Path, "/Microsoft.KubernetesConfiguration/")
	s.calls = append(s.calls, r.Method+" "+segments[len(segments)-1])
	cluster, name, op := at[1], at[3], at[4]
	switch {
	case !s.clusters[cluster]:
		refuse(w, http.StatusNotFound, "ParentResourceNotFound", "there is no cluster "+cluster)
	case op != "":
		s.ask(w, op)
	case name == "":
		s.list(w, r.URL.Path)
	default:
		s.act(w, r, strings.ToLower(r.URL.Path))
	}
}

func (s *Server) act(w http.ResponseWriter, r *http.Request, path string) {
	switch r.Method {
	case http.MethodGet:
		s.get(w, path)
	case http.MethodPut:
		if s.overtake != nil {
			s.overtake()
			s.overtake = nil
		}
		if s.spend(w) {
			s.put(w, r, path)
		}
	case http.MethodDelete:
		if s.spend(w) {
			s.remove(w, r, path)
		}
	default:
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method)
	}
}

func (s *Server) get(w http.ResponseWriter, path string) {
	res := s.resources[path]
	if res == nil {
		refuse(w, http.StatusNotFound, "ResourceNotFound", "there is nothing at "+path)
		return
	}
	w.Header().Set("ETag", res.tag)
	write(w, http.StatusOK, res.body)
}

func (s *Server) list(w http.ResponseWriter, path string) {
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(s.resources)) {
		if strings.HasPrefix(name, strings.ToLower(path)+"/") {
			out = append(out, s.resources[name].body)
		}
	}
	write(w, http.StatusOK, map[string]any{"value": out})
}

func (s *Server) put(w http.ResponseWriter, r *http.Request, path string) {
	old := s.resources[path]
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	if none == "*" && old != nil || match != "" && (old == nil || match != old.tag) {
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed", "the entity tag does not match")
		return
	}
	body, why := read(r, path)
	if why != "" {
		refuse(w, http.StatusBadRequest, "InvalidRequestContent", why)
		return
	}
	res := &resource{body: body, tag: s.tag()}
	properties := res.properties()
	if sealed, ok := properties["configurationProtectedSettings"].(map[string]any); ok {
		res.seal = sealed
		delete(properties, "configurationProtectedSettings")
	}
	status, state := http.StatusCreated, "Creating"
	if old != nil {
		status, state = http.StatusOK, "Updating"
	}
	properties["provisioningState"] = state
	body["id"], body["name"] = r.URL.Path, path[strings.LastIndex(path, "/")+1:]
	s.resources[path] = res
	s.begin(w, r, &operation{path: path, left: s.Polls, fail: s.failing})
	w.Header().Set("ETag", res.tag)
	write(w, status, body)
}

// read reads a resource and returns what is wrong with it.
func read(r *http.Request, path string) (body map[string]any, why string) {
	text, _ := io.ReadAll(r.Body)
	if json.Unmarshal(text, &body) != nil {
		return nil, "the body is no JSON"
	}
	p, ok := body["properties"].(map[string]any)
	if !ok {
		return nil, "there are no properties"
	}
	if strings.Contains(path, "/extensions/") {
		if p["extensionType"] == nil {
			return nil, "extensionType is missing"
		}
		return body, ""
	}
	git, ok := p["gitRepository"].(map[string]any)
	ref, _ := git["repositoryRef"].(map[string]any)
	if !ok || git["url"] == "" || p["sourceKind"] != "GitRepository" || ref["branch"] == "" {
		return nil, "gitRepository is not complete"
	}
	items, _ := p["kustomizations"].(map[string]any)
	name := path[strings.LastIndex(path, "/")+1:]
	for k, v := range items {
		item := v.(map[string]any)
		if len(name)+1+len(k) > 63 || !label.MatchString(k) {
			return nil, "the name of kustomization " + k + " is not valid"
		}
		item["name"] = name + "-" + k // Azure adds it
	}
	return body, ""
}

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func (s *Server) remove(w http.ResponseWriter, r *http.Request, path string) {
	res := s.resources[path]
	if res == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	res.properties()["provisioningState"] = "Deleting"
	o := &operation{path: path, left: s.Polls, delete: true}
	id := random()
	s.operations[id] = o
	w.Header().Set("Location", s.operationURL(r, id))
	w.Header().Set("Retry-After", "0")
	w.WriteHeader(http.StatusAccepted)
}

// begin starts an operation; without polls it ends at once.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, o *operation) {
	if o.left == 0 {
		s.end(o)
		return
	}
	id := random()
	s.operations[id] = o
	w.Header().Set("Azure-AsyncOperation", s.operationURL(r, id))
	w.Header().Set("Retry-After", "0")
}

func (s *Server) operationURL(r *http.Request, id string) string {
	return cmp.Or(s.Operations, s.URL) + r.URL.Path + "/operations/" + id + "?api-version=" + r.URL.Query().Get("api-version")
}

// ask answers a poll of an operation.
func (s *Server) ask(w http.ResponseWriter, id string) {
	o := s.operations[id]
	if o == nil {
		refuse(w, http.StatusNotFound, "OperationNotFound", "there is no such operation")
		return
	}
	w.Header().Set("Retry-After", "0")
	if o.left--; o.left > 0 {
		status := http.StatusOK
		if o.delete {
			status = http.StatusAccepted
		}
		write(w, status, map[string]any{"id": id, "status": "InProgress"})
		return
	}
	s.end(o)
	switch {
	case o.fail != "":
		write(w, http.StatusOK, map[string]any{"id": id, "status": "Failed", "error": map[string]string{"code": "AgentFailed", "message": o.fail}})
	case o.delete:
		w.WriteHeader(http.StatusNoContent)
	default:
		write(w, http.StatusOK, map[string]any{"id": id, "status": "Succeeded"})
	}
}

func (s *Server) end(o *operation) {
	res := s.resources[o.path]
	switch {
	case o.fail != "":
		if res != nil {
			res.properties()["provisioningState"] = "Failed"
			res.properties()["errorMessage"] = o.fail
		}
	case o.delete:
		delete(s.resources, o.path)
	case res != nil:
		res.properties()["provisioningState"] = "Succeeded"
		res.tag = s.tag() // Azure writes the resource itself
	}
}
