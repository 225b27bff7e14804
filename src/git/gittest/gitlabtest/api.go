package gitlabtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// jsonObject is a JSON object to be sent.
type jsonObject map[string]any

// message is the body of most of GitLab's refusals.
func message(text string) jsonObject { return jsonObject{"message": text} }

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// serveAPI notes and counts a call, and answers it.
func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, r.Method+" "+r.URL.Path)
	if s.faulty(w) || s.limited(w, r) {
		return
	}
	http.StripPrefix("/api/v4", s.api).ServeHTTP(w, r)
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /version", s.version)
	for pattern, h := range map[string]apiEndpoint{
		"GET /projects/{id}/repository/branches/{branch}":      getBranch,
		"GET /projects/{id}/merge_requests":                    listRequests,
		"POST /projects/{id}/merge_requests":                   createRequest,
		"PUT /projects/{id}/merge_requests/{iid}":              updateRequest,
		"PUT /projects/{id}/merge_requests/{iid}/merge":        acceptRequest,
		"POST /projects/{id}/statuses/{sha}":                   setStatus,
		"GET /projects/{id}/repository/commits/{sha}/statuses": listStatuses,
	} {
		mux.Handle(pattern, s.endpoint(h))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusNotFound, jsonObject{"error": "404 Not Found"})
	})
	return mux
}

// version answers users only, with any role.
func (s *Server) version(w http.ResponseWriter, r *http.Request) {
	t, ok := s.authenticate(w, r)
	switch {
	case !ok:
	case t == nil:
		answer(w, http.StatusUnauthorized, message("401 Unauthorized"))
	default:
		answer(w, http.StatusOK, jsonObject{"version": "18.0.0", "revision": "test"})
	}
}

// apiQuery is a call that concerns a project, by a token that reaches it. The server is locked.
type apiQuery struct {
	*http.Request
	server  *Server
	project *gitlabProject
	level   Level
	body    io.Reader
	header  http.Header // of the answer
}

// apiEndpoint answers a query with a status and a value to encode as JSON.
type apiEndpoint func(q apiQuery) (code int, body any)

func (s *Server) endpoint(h apiEndpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t, ok := s.authenticate(w, r)
		if !ok {
			return
		}
		p := s.find(r.PathValue("id"))
		if p == nil || t == nil || !t.reaches(p) {
			answer(w, http.StatusNotFound, message("404 Project Not Found"))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
		defer cancel()
		q := apiQuery{Request: r.WithContext(ctx), server: s, project: p, level: t.Level, body: http.MaxBytesReader(w, r.Body, 1<<20), header: w.Header()}
		code, body := h(q)
		answer(w, code, body)
	})
}

// decode reads the body.
func (q apiQuery) decode(into any) bool { return json.NewDecoder(q.body).Decode(into) == nil }

// number returns a positive number from the query, or its default.
func (q apiQuery) number(name string, byDefault int) int {
	if n, err := strconv.Atoi(q.URL.Query().Get(name)); err == nil && n > 0 {
		return n
	}
	return byDefault
}

// page returns one page of a list and sets the headers that describe it.
func page[T any](q apiQuery, all []T) []T {
	size, n := min(q.number("per_page", 20), 100), q.number("page", 1)
	from, to := min((n-1)*size, len(all)), min(n*size, len(all))
	next := ""
	if to < len(all) {
		next = strconv.Itoa(n + 1)
	}
	for key, value := range map[string]string{
		"X-Page": strconv.Itoa(n), "X-Per-Page": strconv.Itoa(size), "X-Total": strconv.Itoa(len(all)), "X-Next-Page": next,
	} {
		q.header.Set(key, value)
	}
	return all[from:to]
}

func getBranch(q apiQuery) (int, any) {
	name := q.PathValue("branch")
	head := q.project.head(name)
	if head == "" {
		return http.StatusNotFound, message("404 Branch Not Found")
	}
	rule, protected := q.project.ruleOf(name)
	return http.StatusOK, jsonObject{
		"name": name, "protected": protected, "default": name == q.project.branch,
		"can_push":            q.level >= Developer && (!protected || q.level >= rule.push),
		"developers_can_push": protected && rule.push <= Developer,
		"commit":              jsonObject{"id": head}, "web_url": fmt.Sprintf("%s/-/tree/%s", q.project.url, name),
	}
}
