package githubtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/githttp"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// Limits of a server. Zero values mean the defaults given here; those of GitHub are in brackets.
type Limits struct {
	Calls       int           // of a token in an hour; no limit [5,000]
	Points      int           // of a token in a minute, reading 1, writing 5; no limit [900]
	Content     int           // calls of a token that make something, in a minute; no limit [80]
	ContentHour int           // likewise in an hour; no limit [500]
	RetryAfter  time.Duration // Retry-After of a secondary limit; none [a minute, or none]
	Items       int           // entries of a request for a tree; 10,000 [unknown]
	Body        int64         // bytes of a request; 25 MiB [unknown; 100 MiB for files]
	Listing     int           // entries of a recursive listing; 100,000 [that, or 7 MB]
}

func (l Limits) withDefaults() Limits {
	l.Items = cmp.Or(l.Items, 10_000)
	l.Body = cmp.Or(l.Body, 25<<20)
	l.Listing = cmp.Or(l.Listing, 100_000)
	return l
}

// Options of a server.
type Options struct {
	Limits Limits
	Now    func() time.Time // the clock; time.Now when nil
}

// User has a token. Without Write it may only read; with Repos it sees only those ("owner/name").
type User struct {
	Name  string
	Token string
	Write bool
	Repos []string
}

// Fault is what happens to a call in place of its answer.
type Fault struct {
	After  bool // the call is carried out before
	Drop   bool // the connection breaks
	Status int
	Header map[string]string
	Body   string // JSON, unless Header names another type
}

// Server is a GitHub. Make it with Serve; Close it when done.
type Server struct {
	dir   string
	lim   Limits
	now   func() time.Time
	base  string
	mux   *http.ServeMux
	http  *http.Server
	ended chan struct{}
	drain githttp.Drain

	mu     sync.Mutex      // guards all below
	users  map[string]User // by token
	ends   map[string]time.Time
	apps   map[string]*appOf
	repos  map[string]*repository
	spent  map[string]*tokenSpending // by token
	calls  map[string]int
	fault  func(*http.Request) *Fault
	tokens int // that were made for installations
}

// repository is one repository of a server.
type repository struct {
	owner, name, main string
	store             *objectStore

	mu       sync.Mutex // guards the references, and all below
	rules    map[string]Rule
	pulls    []*pullRequest
	statuses []commitStatus
}

// Serve starts a server on 127.0.0.1 with repositories below dir.
func Serve(dir string, o Options, users ...User) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{
		dir: dir, lim: o.Limits.withDefaults(), now: o.Now, base: "http://" + l.Addr().String(), ended: make(chan struct{}),
		users: map[string]User{}, ends: map[string]time.Time{}, apps: map[string]*appOf{}, repos: map[string]*repository{},
		spent: map[string]*tokenSpending{}, calls: map[string]int{},
	}
	if s.now == nil {
		s.now = time.Now
	}
	for _, u := range users {
		s.users[u.Token] = u
	}
	s.mux = s.routes()
	s.http = &http.Server{Handler: s.drain.Wrap(s), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.ended)
		_ = s.http.Serve(l)
	}()
	return s, nil
}

// Close ends the server and all that it has started, and waits for it.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.ended
	err = errors.Join(err, s.drain.Close())
	for _, r := range s.repos {
		r.store.close()
	}
	return err
}

// CreateRepo makes an empty repository.
func (s *Server) CreateRepo(ctx context.Context, owner, name, branch string) (gittest.Bare, error) {
	b, err := gittest.Init(ctx, filepath.Join(s.dir, owner, name+".git"), branch)
	if err != nil {
		return b, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos[owner+"/"+name] = &repository{owner: owner, name: name, main: branch, store: &objectStore{ObjectWriter: gittest.ObjectWriter{Bare: b}}, rules: map[string]Rule{}}
	return b, nil
}

// Seed makes a repository whose default branch holds a README.
func (s *Server) Seed(ctx context.Context, owner, name, branch string) (gittest.Bare, error) {
	b, err := s.CreateRepo(ctx, owner, name, branch)
	if err == nil {
		_, err = b.CommitExternal(ctx, branch, map[string]gittest.File{"README.md": {Content: "# " + name + "\n"}})
	}
	return b, err
}

// Repo returns how to get at a repository with a token.
func (s *Server) Repo(owner, name, token string) git.Repo {
	return git.Repo{URL: s.base + "/" + owner + "/" + name + ".git", User: "emco", Token: git.Secret(token), Provider: "github"}
}

// URL returns where the server is.
func (s *Server) URL() string { return s.base }

// Faults sets f, which returns the fault of each call of the interface; a call without a
// fault runs as usual. A nil f ends that.
func (s *Server) Faults(f func(*http.Request) *Fault) { s.set(func() { s.fault = f }) }

// Limit changes the limits.
func (s *Server) Limit(l Limits) { s.set(func() { s.lim = l.withDefaults() }) }

// Revoke ends a token.
func (s *Server) Revoke(token string) {
	s.set(func() { delete(s.users, token) })
}

// Calls returns how many calls came since it was asked last, by method and path.
func (s *Server) Calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.calls
	s.calls = map[string]int{}
	return out
}

// Total returns the sum of counted calls.
func Total(calls map[string]int) (n int) {
	for c := range maps.Values(calls) {
		n += c
	}
	return n
}

func (s *Server) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Transport carries requests to the server without a network, for tests whose clock stands
// still while one is awaited.
func (s *Server) Transport() http.RoundTripper { return directTransport{s} }

type directTransport struct{ s *Server }

// RoundTrip calls the server.
func (d directTransport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	defer func() {
		if recover() != nil {
			resp, err = nil, errors.New("connection reset by peer")
		}
	}()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	rec := httptest.NewRecorder()
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	d.s.ServeHTTP(rec, in)
	resp = rec.Result()
	resp.Request = r
	return resp, nil
}

// apiCall is one call of the interface.
type apiCall struct {
	s    *Server
	w    http.ResponseWriter
	r    *http.Request
	user User
	repo *repository
}

// apiRefusal is an answer that is no success.
type apiRefusal struct {
	status int
	text   string
	header map[string]string
}

// Error returns the text of the answer.
func (r *apiRefusal) Error() string { return r.text }

func refuse(status int, text string) error { return &apiRefusal{status: status, text: text} }

// ServeHTTP answers a request of a Git client or for the interface.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, api := strings.CutPrefix(r.URL.Path, "/api/v3")
	if !api {
		s.serveGit(w, r)
		return
	}
	r = r.Clone(r.Context())
	r.URL.Path, r.URL.RawPath = rest, strings.TrimPrefix(r.URL.RawPath, "/api/v3")
	f := s.count(r)
	if f == nil {
		s.mux.ServeHTTP(w, r)
		return
	}
	if f.After {
		s.mux.ServeHTTP(httptest.NewRecorder(), r)
	}
	if f.Drop {
		panic(http.ErrAbortHandler) // breaks the connection, as the server's own death would
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	for k, v := range f.Header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(f.Status)
	_, _ = io.WriteString(w, f.Body)
}

// count counts a call and returns its fault, nil if it has none.
func (s *Server) count(r *http.Request) *Fault {
	_, pattern := s.mux.Handler(r)
	s.mu.Lock()
	f := s.fault
	s.calls[strings.Replace(pattern, "/repos/{owner}/{name}/", "", 1)]++
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(r)
}

// handle makes a handler of a call: it checks the token, the limits and the repository.
func (s *Server) handle(do func(*apiCall) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &apiCall{s: s, w: w, r: r}
		err := c.admit()
		if err == nil {
			err = do(c)
		}
		if err != nil {
			c.fail(err)
		}
	}
}

func (c *apiCall) admit() error {
	token := strings.TrimPrefix(strings.TrimPrefix(c.r.Header.Get("Authorization"), "Bearer "), "token ")
	user, ok := c.s.user(token)
	if !ok {
		return refuse(http.StatusUnauthorized, "Bad credentials")
	}
	c.user = user
	if err := c.s.spend(token, c); err != nil {
		return err
	}
	key := c.r.PathValue("owner") + "/" + c.r.PathValue("name")
	c.s.mu.Lock()
	c.repo = c.s.repos[key]
	c.s.mu.Unlock()
	switch {
	case c.repo == nil || !user.sees(key):
		return refuse(http.StatusNotFound, "Not Found")
	case c.r.Method != http.MethodGet && !user.Write:
		return refuse(http.StatusForbidden, "Resource not accessible by personal access token")
	}
	return nil
}

func (u User) sees(repo string) bool {
	for _, r := range u.Repos {
		if r == repo {
			return true
		}
	}
	return len(u.Repos) == 0
}

// user returns whose a token is, if it has not ended.
func (s *Server) user(token string) (User, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, ok := s.users[token]
	if end, bound := s.ends[token]; bound && !s.now().Before(end) {
		return User{}, false
	}
	return u, ok
}

func (c *apiCall) fail(err error) {
	r := &apiRefusal{status: http.StatusInternalServerError, text: err.Error()}
	_ = errors.As(err, &r)
	for k, v := range r.header {
		c.w.Header().Set(k, v)
	}
	_ = c.answer(r.status, map[string]string{"message": r.text, "documentation_url": "https://docs.github.com/rest"})
}

// answer writes JSON.
func (c *apiCall) answer(status int, body any) error {
	c.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	c.w.WriteHeader(status)
	return json.NewEncoder(c.w).Encode(body)
}

// read decodes the request.
func (c *apiCall) read(into any) error {
	err := json.NewDecoder(http.MaxBytesReader(nil, c.r.Body, c.s.lim.Body)).Decode(into)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return refuse(http.StatusRequestEntityTooLarge, "Payload too large")
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "Problems parsing JSON")
	}
	return nil
}

// page cuts a list as the query asks for, and sets the Link header.
func page[T any](c *apiCall, all []T, per int) []T {
	q := c.r.URL.Query()
	number := 1
	_, _ = fmt.Sscan(q.Get("page"), &number)
	_, _ = fmt.Sscan(q.Get("per_page"), &per)
	per = min(max(per, 1), 100)
	from := min((max(number, 1)-1)*per, len(all))
	to := min(from+per, len(all))
	if to < len(all) {
		q.Set("page", fmt.Sprint(number+1))
		c.w.Header().Set("Link", fmt.Sprintf(`<%s%s?%s>; rel="next"`, c.s.base, c.r.URL.Path, q.Encode()))
	}
	return all[from:to]
}

// serveGit lets a Git client clone and push.
func (s *Server) serveGit(w http.ResponseWriter, r *http.Request) {
	_, token, _ := r.BasicAuth()
	user, ok := s.user(token)
	writes := strings.HasSuffix(r.URL.Path, "/git-receive-pack") || r.URL.Query().Get("service") == "git-receive-pack"
	switch {
	case !ok:
		w.Header().Set("WWW-Authenticate", `Basic realm="GitHub"`)
		http.Error(w, "Invalid username or password", http.StatusUnauthorized)
	case writes && !user.Write:
		http.Error(w, "Write access to repository not granted", http.StatusForbidden)
	default:
		githttp.Backend(s.dir, user.Name).ServeHTTP(w, r)
	}
}
