// Package arctest is a server for the part of Azure's REST API that the backend
// "azureArcV2" needs: an authority that issues tokens, and a resource manager with entity
// tags, operations that take several polls, request limits, and faults on demand. Its state
// is real: what it refuses, Azure refuses.
package arctest

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Identities that the authority knows, and the subscription.
const (
	Tenant       = "7b0a6f5c-1111-4111-8111-000000000001"
	Client       = "7b0a6f5c-2222-4222-8222-000000000002"
	Secret       = "the-client-secret"
	Subscription = "7b0a6f5c-3333-4333-8333-000000000003"
	Group        = "edge"
)

// Server is the service. Its fields may be set before it is used.
type Server struct {
	URL string
	CA  string // PEM, to trust it

	// Polls is how often a client has to poll an operation until it ends.
	Polls int
	// Operations is the address that clients are sent to for operations; URL if empty.
	Operations string

	t      testing.TB
	server *httptest.Server

	mu         sync.Mutex // guards all below
	clusters   map[string]bool
	resources  map[string]*resource  // by path in lower case
	operations map[string]*operation // by id
	tokens     map[string]bool
	keys       []*rsa.PublicKey // of certificates
	federated  string           // the workload's token
	faults     []Fault
	calls      []string
	left       int // writes before 429; negative: no limit
	remaining  int // value of the header; negative: no header
	failing    string
	etags      int
	overtake   func() // before the next write
}

// Fault makes calls that match fail.
type Fault struct {
	Method, Path string // the path contains it
	Status       int
	RetryAfter   string
	Times        int // how often; 0 is for ever
	Drop         bool
	After        bool // carry out the request first: only the answer is lost
}

type resource struct {
	body map[string]any
	tag  string
	seal map[string]any // protected settings
}

type operation struct {
	path   string
	left   int
	fail   string
	delete bool
}

// New starts a server with the named clusters; it ends with the test.
func New(t testing.TB, clusters ...string) *Server {
	t.Helper()
	s := &Server{
		t: t, Polls: 2, clusters: map[string]bool{}, resources: map[string]*resource{}, operations: map[string]*operation{},
		tokens: map[string]bool{}, left: -1, remaining: -1,
	}
	for _, c := range clusters {
		s.clusters[strings.ToLower(c)] = true
	}
	s.server = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.server.Close)
	s.URL = s.server.URL
	s.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw}))
	return s
}

// Trust makes the authority accept assertions signed with the key of a certificate.
func (s *Server) Trust(key *rsa.PublicKey) { s.do(func() { s.keys = append(s.keys, key) }) }

// Federate makes the authority accept a workload's token.
func (s *Server) Federate(token string) { s.do(func() { s.federated = token }) }

// Break adds a fault.
func (s *Server) Break(f Fault) { s.do(func() { s.faults = append(s.faults, f) }) }

// Repair removes all faults.
func (s *Server) Repair() { s.do(func() { s.faults = nil }) }

// Limit allows as many writes and answers 429 after that; negative for no limit.
func (s *Server) Limit(writes int) { s.do(func() { s.left = writes }) }

// Remaining sets the header with the number of remaining writes; negative for none.
func (s *Server) Remaining(writes int) { s.do(func() { s.remaining = writes }) }

// Revoke invalidates all issued tokens.
func (s *Server) Revoke() { s.do(func() { clear(s.tokens) }) }

// Calls returns the requests to the resource manager since the last call: "PUT
// fluxConfigurations/config-7".
func (s *Server) Calls() (calls []string) {
	s.do(func() { calls, s.calls = s.calls, nil })
	return calls
}

// Resource returns the properties of a resource below a cluster, and its protected
// settings; nil if it does not exist.
func (s *Server) Resource(cluster, path string) (properties, protected map[string]any) {
	s.do(func() {
		if r := s.resources[strings.ToLower(of(cluster)+path)]; r != nil {
			properties, protected = r.properties(), r.seal
		}
	})
	return properties, protected
}

// Modify changes a resource as another client would.
func (s *Server) Modify(cluster, path string, change func(properties map[string]any)) {
	s.do(func() {
		r := s.resources[strings.ToLower(of(cluster)+path)]
		change(r.properties())
		r.tag = s.tag()
	})
}

// Overtake makes another client write a resource just before the next write arrives.
func (s *Server) Overtake(cluster, path string, properties map[string]any) {
	s.do(func() {
		s.overtake = func() {
			s.resources[strings.ToLower(of(cluster)+path)] = &resource{body: map[string]any{"properties": properties}, tag: s.tag()}
		}
	})
}

// Fail makes new operations fail; none if why is empty.
func (s *Server) Fail(why string) { s.do(func() { s.failing = why }) }

func of(cluster string) string {
	return "/subscriptions/" + Subscription + "/resourceGroups/" + Group + "/providers/Microsoft.Kubernetes/connectedClusters/" + cluster +
		"/providers/Microsoft.KubernetesConfiguration/"
}

func (s *Server) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (r *resource) properties() map[string]any { return r.body["properties"].(map[string]any) }

func (s *Server) tag() string {
	s.etags++
	return fmt.Sprintf(`"%04d"`, s.etags)
}

// serve routes to the two services, which share one address here.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fault := s.fault(r)
	if fault != nil && !fault.After {
		fault.answer(w)
		return
	}
	rec := httptest.NewRecorder()
	if strings.HasPrefix(r.URL.Path, "/"+Tenant+"/") {
		s.authority(rec, r)
	} else {
		s.manager(rec, r)
	}
	if fault != nil {
		fault.answer(w)
		return
	}
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

// fault returns the first fault that matches and is not used up.
func (s *Server) fault(r *http.Request) *Fault {
	for i, f := range s.faults {
		if f.Method != "" && f.Method != r.Method || !strings.Contains(r.URL.Path, f.Path) {
			continue
		}
		if f.Times > 0 {
			if s.faults[i].Times--; s.faults[i].Times == 0 {
				s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
			}
		}
		return &f
	}
	return nil
}

func (f *Fault) answer(w http.ResponseWriter) {
	if f.Drop {
		panic(http.ErrAbortHandler)
	}
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	refuse(w, f.Status, "Broken", "a fault was asked for")
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	write(w, status, map[string]any{"error": map[string]string{"code": code, "message": message}})
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// spend counts a write against the limit.
func (s *Server) spend(w http.ResponseWriter) bool {
	if s.remaining >= 0 {
		w.Header().Set("x-ms-ratelimit-remaining-subscription-writes", strconv.Itoa(s.remaining))
	}
	if s.left == 0 {
		w.Header().Set("Retry-After", "17")
		refuse(w, http.StatusTooManyRequests, "TooManyRequests", "the limit of this subscription is used up")
		return false
	}
	if s.left > 0 {
		s.left--
	}
	return true
}
