package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/oidctest"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// fakeServer keeps the documents of one script and the states of its deployments, by
// upstream's rules: a parent must exist, a name is unique, a document with children and an
// instantiated deployment cannot be deleted, secrets are hidden, actions depend on the state.
//
// The files that a script puts into answers/ are answers, see prepared.
type fakeServer struct {
	token string             // required if not empty
	op    *oidctest.Provider // its tokens are required, if not nil
	dir   string             // of prepared answers; none if empty

	mu     sync.Mutex
	docs   map[string]*entry // by path below /v2
	serial int
}

type entry struct {
	body    []byte // as clients see it
	content []byte // body with secrets, for comparison
	file    []byte
	rev     int
	actions []string // states, of deployments and clouds
	looks   int      // status queries since the last action
}

func (e *entry) etag() string { return fmt.Sprintf(`"%x-%d"`, sha256.Sum256(e.content), e.rev) }

func (e *entry) state() string {
	if len(e.actions) == 0 {
		return ""
	}
	return e.actions[len(e.actions)-1]
}

// refusalError is an answer that is not 2xx.
type refusalError struct {
	status int
	text   string
}

func (r *refusalError) Error() string { return r.text }

func refuse(status int, format string, args ...any) error {
	return &refusalError{status, fmt.Sprintf(format, args...)}
}

func newFakeServer(token, dir string) *fakeServer {
	return &fakeServer{token: token, dir: dir, docs: map[string]*entry{}}
}

// prepared answers from a file of the script. METHOD-LAST.json answers requests with the last
// segment LAST, METHOD-LAST-FLAG.json those with FLAG=true in the query, METHOD-LAST-continue.json those for a further page. A file .ndjson is a
// stream, .refused a status and a text. prepared writes these requests to the file requests.
func (s *fakeServer) prepared(w http.ResponseWriter, r *http.Request) (bool, error) {
	name, special := r.Method+"-"+path.Base(r.URL.Path), ""
	for _, flag := range []string{"dryRun", "follow", "watch"} {
		if r.URL.Query().Get(flag) == "true" {
			special = "-" + flag
		}
	}
	if r.URL.Query().Has("continue") {
		special = "-continue"
	}
	found, err := filepath.Glob(filepath.Join(s.dir, "answers", name+special+".*"))
	if (special == "-watch" || special == "-continue") && len(found) == 0 { // as a server that does not know the flag
		found, err = filepath.Glob(filepath.Join(s.dir, "answers", name+".*"))
	}
	if s.dir == "" || err != nil || len(found) == 0 {
		return false, err
	}
	if err := s.note(r); err != nil {
		return true, err
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		return true, err
	}
	switch filepath.Ext(found[0]) {
	case ".ndjson":
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, err = w.Write(text)
		return true, err
	case ".refused":
		code, message, _ := strings.Cut(string(text), " ")
		status, err := strconv.Atoi(code)
		return true, errors.Join(err, refuse(status, "%s", strings.TrimSpace(message)))
	}
	status := http.StatusOK
	if r.Method == http.MethodPost && r.URL.Query().Get("dryRun") == "" {
		status = http.StatusAccepted
	}
	return true, reply(w, status, text)
}

// note writes a request down.
func (s *fakeServer) note(r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(s.dir, "requests"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	key := ""
	if r.Header.Get("Idempotency-Key") != "" {
		key = " with a key"
	}
	_, err = fmt.Fprintf(file, "%s %s%s %s\n", r.Method, path.Base(r.URL.Path)+strings.TrimSuffix("?"+r.URL.RawQuery, "?"), key, body)
	return errors.Join(err, file.Close())
}

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.serve(w, r)
	if answer, ok := errors.AsType[*refusalError](err); ok {
		http.Error(w, answer.text, answer.status)
	} else if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	}
}

func (s *fakeServer) serve(w http.ResponseWriter, r *http.Request) error {
	if s.token != "" && r.Header.Get("Authorization") != "Bearer "+s.token {
		return refuse(http.StatusUnauthorized, "token missing or wrong")
	}
	if s.op != nil {
		if done, err := s.signedIn(w, r); done || err != nil {
			return err
		}
	}
	if done, err := s.prepared(w, r); done || err != nil {
		return err
	}
	if r.URL.Path == "/version" {
		return reply(w, http.StatusOK, []byte(`{"version":"fake-1"}`))
	}
	p, ok := strings.CutPrefix(r.URL.Path, "/v2/")
	if !ok {
		return refuse(http.StatusNotFound, "404 page not found")
	}
	if owner, found := s.docs[path.Dir(p)]; found && owner.actions != nil {
		switch op := path.Base(p); {
		case op == "status" && r.Method == http.MethodGet:
			return s.status(w, path.Dir(p), owner)
		case legal[op] != nil && r.Method == http.MethodPost:
			return act(w, owner, op)
		}
	}
	switch r.Method {
	case http.MethodPost:
		return s.create(w, r, p)
	case http.MethodGet:
		return s.read(w, r, p)
	case http.MethodPut:
		return s.replace(w, r, p)
	case http.MethodDelete:
		return s.remove(w, p)
	}
	return refuse(http.StatusMethodNotAllowed, "")
}

// signedIn answers where people sign in, and refuses requests without a token of the provider.
func (s *fakeServer) signedIn(w http.ResponseWriter, r *http.Request) (bool, error) {
	if r.URL.Path == "/v2/auth/issuers" && r.Header.Get("Authorization") == "" {
		text, err := json.Marshal([]v2.SignIn{{Name: "ci", URL: "https://ci.example"}, {Name: "corp", URL: s.op.URL, Audience: "emco-api", Client: "emcoctl"}})
		return true, errors.Join(err, reply(w, http.StatusOK, text))
	}
	claims, valid := s.op.Verify(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	if !valid || claims["aud"] != "emco-api" {
		return true, refuse(http.StatusUnauthorized, "token missing or wrong")
	}
	if r.URL.Path != "/v2/auth/whoami" {
		return false, nil
	}
	text, err := json.Marshal(v2.WhoAmI{Subject: fmt.Sprint("user:corp:", claims["sub"]), Groups: []string{"group:corp:shop"}, Via: "oidc"})
	return true, errors.Join(err, reply(w, http.StatusOK, text))
}

func reply(w http.ResponseWriter, status int, body []byte) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err := w.Write(append(bytes.TrimSpace(body), '\n'))
	return err
}

// kinds are the collections of the server, with their decoders.
var kinds = map[string]struct {
	title  string
	decode func([]byte) (name string, full, shown []byte, err error)
	file   bool // multipart
	hidden bool // the file is not shown
	states bool
}{
	"cluster-providers":        {title: "ClusterProvider", decode: decode[v2.ClusterProvider]},
	"cluster-sync-objects":     {title: "Cluster Sync Objects", decode: decodeSync},
	"clusters":                 {title: "Cluster", decode: decode[v2.Cluster], file: true, hidden: true},
	"labels":                   {title: "Cluster Label", decode: decode[v2.ClusterLabel]},
	"projects":                 {title: "Project", decode: decode[v2.Project]},
	"composite-apps":           {title: "CompositeApp", decode: decode[v2.CompositeApp]},
	"apps":                     {title: "App", decode: decode[v2.App], file: true},
	"logical-clouds":           {title: "LogicalCloud", decode: decode[v2.LogicalCloud], states: true},
	"deployment-intent-groups": {title: "DeploymentIntent", decode: decode[v2.DeploymentIntentGroup], states: true},
}

func decode[T any, P interface {
	*T
	v2.Document
}](text []byte) (name string, full, shown []byte, err error) {
	doc, err := v2.Decode[T](text, v2.Lenient)
	if err == nil {
		err = P(&doc).Validate()
	}
	if err != nil {
		return "", nil, nil, refuse(http.StatusBadRequest, "%s", err)
	}
	full, err = json.Marshal(doc)
	return P(&doc).DocName(), full, full, err
}

func decodeSync(text []byte) (name string, full, shown []byte, err error) {
	name, full, _, err = decode[v2.SyncObject](text)
	if err != nil {
		return "", nil, nil, err
	}
	doc, err := v2.Decode[v2.SyncObject](full, v2.Lenient)
	if err != nil {
		return "", nil, nil, err
	}
	shown, err = json.Marshal(doc.Masked())
	return name, full, shown, err
}

// upload reads a request's document and file.
func upload(r *http.Request, wantFile bool) (text, file []byte, err error) {
	if !wantFile {
		text, err = io.ReadAll(r.Body)
		return text, nil, err
	}
	if err := r.ParseMultipartForm(1 << 20); err != nil {
		return nil, nil, err
	}
	f, header, err := r.FormFile("file")
	if err != nil {
		return nil, nil, errors.New("Unable to process file")
	}
	defer f.Close()
	if header.Filename != "filename" {
		return nil, nil, fmt.Errorf("file name is %q", header.Filename)
	}
	file, err = io.ReadAll(f)
	return []byte(r.FormValue("metadata")), file, err
}

func (s *fakeServer) create(w http.ResponseWriter, r *http.Request, p string) error {
	kind, ok := kinds[path.Base(p)]
	if !ok {
		return refuse(http.StatusNotFound, "404 page not found")
	}
	text, file, err := upload(r, kind.file)
	if err != nil {
		return err
	}
	name, full, shown, err := kind.decode(text)
	if err != nil {
		return err
	}
	if parent := path.Dir(p); parent != "." && s.docs[parent] == nil {
		return refuse(http.StatusConflict, "Cannot perform requested operation. Parent resource not found")
	}
	if s.docs[p+"/"+name] != nil {
		return refuse(http.StatusConflict, "%s already exists", kind.title)
	}
	s.serial++
	e := &entry{body: shown, content: full, file: file, rev: s.serial}
	if kind.states {
		e.actions = []string{"Created"}
	}
	s.docs[p+"/"+name] = e
	return reply(w, http.StatusCreated, shown)
}

func (s *fakeServer) read(w http.ResponseWriter, r *http.Request, p string) error {
	if e := s.docs[p]; e != nil {
		w.Header().Set("ETag", e.etag())
		if e.file != nil && kinds[collection(p)].hidden && r.Header.Get("Accept") == "application/octet-stream" {
			_, err := w.Write([]byte(v2.Mask))
			return err
		}
		if e.file != nil && r.Header.Get("Accept") == "application/octet-stream" {
			_, err := w.Write(e.file)
			return err
		}
		return reply(w, http.StatusOK, e.body)
	}
	if _, ok := kinds[path.Base(p)]; !ok || strings.HasPrefix(p, "views/") {
		return refuse(http.StatusNotFound, "%s not found", path.Base(path.Dir(p)))
	}
	list := []json.RawMessage{}
	for _, key := range s.sorted() {
		below, ok := strings.CutPrefix(key, p+"/")
		if ok && strings.Count(below, "/") == strings.Count(path.Base(p), "composite-") {
			list = append(list, s.docs[key].body)
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, text)
}

func (s *fakeServer) sorted() []string {
	var all []string
	for key := range s.docs {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// collection returns the collection word of an item's path.
func collection(p string) string {
	if word := path.Base(path.Dir(path.Dir(p))); word == "composite-apps" {
		return word
	}
	return path.Base(path.Dir(p))
}

func (s *fakeServer) replace(w http.ResponseWriter, r *http.Request, p string) error {
	kind, ok := kinds[collection(p)]
	if !ok || strings.HasPrefix(p, "cluster-providers/upstream/clusters/") { // as upstream EMCO
		return refuse(http.StatusMethodNotAllowed, "")
	}
	text, file, err := upload(r, kind.file)
	if err != nil {
		return err
	}
	_, full, shown, err := kind.decode(text)
	if err != nil {
		return err
	}
	e := s.docs[p]
	if e == nil {
		return refuse(http.StatusNotFound, "%s not found", kind.title)
	}
	if match := r.Header.Get("If-Match"); match != "" && match != e.etag() {
		return refuse(http.StatusPreconditionFailed, "the document has changed")
	}
	if !bytes.Equal(full, e.content) || !bytes.Equal(file, e.file) {
		if kind.states && e.state() != "Created" {
			return refuse(http.StatusConflict, "The specified %s is not in Created status", kind.title)
		}
		s.serial++
		e.body, e.content, e.file, e.rev = shown, full, file, s.serial
	}
	w.Header().Set("ETag", e.etag())
	return reply(w, http.StatusOK, e.body)
}

func (s *fakeServer) remove(w http.ResponseWriter, p string) error {
	e := s.docs[p]
	if e == nil {
		return refuse(http.StatusNotFound, "The requested resource not found")
	}
	if slices.Contains([]string{"Instantiated", "InstantiateStopped"}, e.state()) {
		return refuse(http.StatusConflict, "it is instantiated; terminate it first")
	}
	for key := range s.docs {
		if strings.HasPrefix(key, p+"/") {
			return refuse(http.StatusConflict, "Cannot delete parent without deleting child references first: %s", key)
		}
	}
	delete(s.docs, p)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// legal maps each action to the states that it may start from, and to those that follow.
var legal = map[string]map[string]string{
	"approve":     {"Created": "Approved", "Terminated": "Approved"},
	"instantiate": {"Approved": "Instantiated", "Terminated": "Instantiated"},
	"terminate":   {"Instantiated": "Terminated", "InstantiateStopped": "Terminated"},
	"stop":        {"Instantiated": "InstantiateStopped"},
	"update":      {"Instantiated": "Instantiated"},
}

func act(w http.ResponseWriter, e *entry, op string) error {
	next, ok := legal[op][e.state()]
	if !ok {
		return refuse(http.StatusConflict, "%s is not possible in state %s", op, e.state())
	}
	e.actions, e.looks = append(e.actions, next), 0
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// status goes from …ing to the end: the first two polls see it under way.
// An app whose file holds the word "broken" cannot be rendered; one with "slow" is
// never ready.
func (s *fakeServer) status(w http.ResponseWriter, p string, e *entry) error {
	st := v2.Status{StatusSubject: v2.StatusSubject{Name: path.Base(p)}}
	for i, state := range e.actions {
		a := v2.Action{State: state}
		if state != "Created" && state != "Approved" {
			a.Instance, a.Revision = "4711", int64(i)
		}
		st.States.Actions = append(st.States.Actions, a)
	}
	e.looks++
	switch e.state() {
	case "Instantiated":
		s.instantiated(&st, p, e.looks <= 2)
	case "Terminated":
		st.DeployedStatus = map[bool]string{true: v2.StatusTerminating, false: v2.StatusTerminated}[e.looks <= 2]
	}
	text, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, text)
}

func (s *fakeServer) instantiated(st *v2.Status, p string, early bool) {
	st.DeployedStatus, st.ReadyStatus = v2.StatusInstantiated, v2.Ready
	if early {
		st.DeployedStatus, st.ReadyStatus = v2.StatusInstantiating, v2.NotReady
	}
	apps, _, _ := strings.Cut(p, "/deployment-intent-groups/")
	for _, key := range s.sorted() {
		name, ok := strings.CutPrefix(key, apps+"/apps/")
		if !ok {
			continue
		}
		app := v2.AppStatus{Name: name}
		if file := s.docs[key].file; bytes.Contains(file, []byte("broken")) {
			app.Failure = &v2.AppFailure{Stage: "rendering", File: "templates/cm.yaml", Reason: "not a map"}
			if !early {
				st.DeployedStatus = v2.StatusInstantiateFailed
			}
		} else {
			app.Clusters = []v2.ClusterStatus{onCluster(st, early, bytes.Contains(file, []byte("slow")))}
		}
		st.Apps = append(st.Apps, app)
	}
}

func onCluster(st *v2.Status, early, slow bool) v2.ClusterStatus {
	c := v2.ClusterStatus{Provider: "edge", Cluster: "c1", Phase: "Pending"}
	r := v2.ResourceStatus{GVK: v2.GVK{Version: "v1", Kind: "ConfigMap"}, Name: "cm", ReadyStatus: v2.NotPresent}
	if !early {
		c.Phase, c.Revision, c.Commit = "Applied", 1, "0123456789abcdef0123456789abcdef01234567"
		r.ReadyStatus = v2.Ready
	}
	if slow {
		st.ReadyStatus = v2.NotReady
		r.ReadyStatus, r.Reason = v2.NotReady, "1 of 3 replicas"
	}
	c.Resources = []v2.ResourceStatus{r}
	return c
}
