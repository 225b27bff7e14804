package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/oidctest"

	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/scripts/testbed/bed"
)

// identityStage is an installation with a provider of identities, and an administrator, root.
type identityStage struct {
	*testing.T
	dir  string
	op   *oidctest.Provider
	emco *program.Emco
	root string // token of the administrator
}

// bootstrapToken lets the first administrator in.
const bootstrapToken = "bootstrap-0123456789-0123456789-0123456789"

func newIdentityStage(t *testing.T, args ...string) *identityStage {
	t.Helper()
	return newIdentityStageWith(t, "{}", "", args...)
}

// newIdentityStageWith has browsers sign in with the settings of web. The configuration has further sections, too.
func newIdentityStageWith(t *testing.T, web, sections string, args ...string) *identityStage {
	t.Helper()
	s := &identityStage{T: t, dir: t.TempDir(), op: oidctest.New(t)}
	s.write("bootstrap", bootstrapToken)
	s.write("emco.yaml", fmt.Sprintf("auth:\n  issuers: [{name: corp, url: %q, audience: emco-api, client: emcoctl, web: %s}]\n  bootstrapFile: %s\n%s", s.op.URL, web, s.path("bootstrap"), sections))
	s.emco = s.start("one", args...)
	s.as(bootstrapToken, 0, "apply", "-f", s.write("admins.yaml", bindingYAML("role-bindings", "admins", "platform-admin", "user:corp:root")))
	s.root = s.token("root")
	for _, p := range []string{"shop", "bank"} {
		s.as(s.root, 0, "apply", "-f", s.write(p+".yaml", "version: emco/v2\nresourceContext: {anchor: projects}\nmetadata: {name: "+p+"}\n"))
	}
	return s
}

func (s *identityStage) path(name string) string { return filepath.Join(s.dir, name) }

func (s *identityStage) write(name, text string) (file string) {
	s.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return s.path(name)
}

// start runs a process of the installation.
func (s *identityStage) start(name string, args ...string) *program.Emco {
	s.Helper()
	return s.startFrom(binaries(), name, args...)
}

// startFrom runs a process of the programs in a folder.
func (s *identityStage) startFrom(bin, name string, args ...string) *program.Emco {
	s.Helper()
	e, err := program.Start(s.Context(), program.Options{Bin: bin, Dir: s.path(name), Args: append([]string{"-config", s.path("emco.yaml")}, args...)})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := e.Stop(); err != nil {
			s.Error(err)
		}
	})
	return e
}

// token returns a token of the provider for a person.
func (s *identityStage) token(name string) string {
	s.Helper()
	return s.op.Token(s, map[string]any{"sub": name, "aud": "emco-api"})
}

// as runs emcoctl as the holder of a token, and wants an exit code.
func (s *identityStage) as(token string, code int, args ...string) program.Result {
	s.Helper()
	r := s.emco.Emcoctl(s.Context(), append(args, "-t", token)...)
	if r.Code != code {
		s.Fatalf("emcoctl %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), r.Code, code, r.Out, r.Err)
	}
	return r
}

func bindingYAML(anchor, name, role, subject string) string {
	return fmt.Sprintf("version: emco/v2\nresourceContext: {anchor: %s}\nmetadata: {name: %s}\nspec: {role: %s, subjects: [%q]}\n", anchor, name, role, subject)
}

// askAs asks a process as the holder of a token; the status is 0 if it does not answer.
func askAs(ctx context.Context, e *program.Emco, path, token string, headers ...string) (code int, text string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL()+path, nil)
	if err != nil {
		return 0, err.Error()
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(body)
}

// S-10: a program that other machines could reach does not start without a decision, and names the possible ones.
func TestS10AnOpenAddressNeedsADecision(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for want, args := range map[string][]string{
		"set http.cert and http.certKey":              {"-http.address", "0.0.0.0:0"},
		"http.clientCA needs a decision":              {"-http.cert", "c", "-http.certKey", "k", "-http.clientCA", "a"},
		"auth.mode is off; set auth.mode to on, with": {"-http.address", "0.0.0.0:0", "-auth.mode", "off"},
	} {
		out, err := exec.CommandContext(ctx, filepath.Join(binaries(), "emco"), append(args, "-data", filepath.Join(t.TempDir(), "data"))...).CombinedOutput()
		failed, ok := errors.AsType[*exec.ExitError](err)
		if !ok || failed.ExitCode() != 2 || !strings.Contains(string(out), want) {
			t.Errorf("emco %s: %v, want exit code 2 and %q:\n%s", strings.Join(args, " "), err, want, out)
		}
	}
}

// S-11: a person signs in on a device, a program of CI has a token of the provider, a robot an API token; each may
// do what its role allows, and the sign-in ends.
func TestS11PeopleAndProgramsSignIn(t *testing.T) {
	s := newIdentityStage(t)
	s.as(s.root, 0, "apply", "-f", s.write("ann.yaml", bindingYAML("projects/shop/role-bindings", "ann", "project-admin", "user:corp:ann")))
	s.as(s.root, 0, "apply", "-f", s.write("ci.yaml", bindingYAML("projects/shop/role-bindings", "ci", "viewer", "user:corp:ci")))

	home := filepath.Join(s.dir, "one") // Emcoctl's
	login := exec.CommandContext(t.Context(), filepath.Join(binaries(), "emcoctl"), "login", "--device", "--server", s.emco.URL())
	login.Env = append(os.Environ(), "HOME="+home, "EMCO_TOKEN=", "EMCO_URL=")
	messages, err := login.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	login.Stdout = &out
	if err := login.Start(); err != nil {
		t.Fatal(err)
	}
	said, asks := "", regexp.MustCompile(`enter the code (\S+)`)
	lines := bufio.NewScanner(messages)
	for !asks.MatchString(said) && lines.Scan() { // first it shows what the server asks for
		said += lines.Text() + "\n"
	}
	code := asks.FindStringSubmatch(said)
	if code == nil || !s.op.Approve(code[1], map[string]any{"sub": "ann"}) {
		t.Fatalf("login prints %q, %v", said, lines.Err())
	}
	if err := login.Wait(); err != nil || !strings.Contains(out.String(), "as user:corp:ann") {
		t.Fatalf("login: %v, %s", err, &out)
	}
	ann := func(code int, args ...string) program.Result {
		t.Helper()
		r := s.emco.Emcoctl(t.Context(), args...)
		if r.Code != code {
			t.Fatalf("emcoctl %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), r.Code, code, r.Out, r.Err)
		}
		return r
	}
	if r := ann(0, "get", "projects", "-o", "name"); strings.TrimSpace(r.Out) != "projects/shop" {
		t.Errorf("ann sees %q", r.Out)
	}
	ann(0, "auth", "can-i", "create", "projects/shop/composite-apps")
	ann(5, "auth", "can-i", "create", "projects")
	if r := ann(0, "auth", "who-can", "delete", "projects/shop/role-bindings/ci"); !strings.Contains(r.Out, "user:corp:ann") {
		t.Errorf("who can: %s", r.Out)
	}
	ann(5, "auth", "token", "create", "mine", "--role", "deployer", "--place", "projects/shop")

	ci := s.token("ci")
	s.as(ci, 0, "get", "projects/shop")
	s.as(ci, 5, "apply", "-f", s.write("bob.yaml", bindingYAML("projects/shop/role-bindings", "bob", "viewer", "user:corp:bob")))

	robot := s.as(s.root, 0, "auth", "token", "create", "robot", "--role", "viewer", "--place", "projects/shop", "--expires", "1d")
	token := strings.TrimSpace(robot.Out)
	if !strings.HasPrefix(token, "emco_") || strings.Contains(robot.Err, token) {
		t.Fatalf("the token: %q, %q", robot.Out, robot.Err)
	}
	s.as(token, 0, "get", "projects/shop")
	s.as(token, 3, "get", "projects/bank")
	if r := s.as(s.root, 0, "auth", "token", "list"); !strings.Contains(r.Out, "robot") || strings.Contains(r.Out, token) {
		t.Errorf("list: %s", r.Out)
	}
	s.as(s.root, 0, "auth", "token", "revoke", "robot")
	s.as(token, 5, "get", "projects/shop")

	ann(0, "logout")
	ann(5, "get", "projects")
	if s.op.Sessions() != 0 {
		t.Errorf("%d sign-ins are left at the provider", s.op.Sessions())
	}
	s.op.SetDown(true)
	s.as(s.root, 0, "get", "projects") // known keys count while the provider is down
}

// S-16: no spelling of a path is served without the question who asks, nor with the answer for another project.
func TestS16NoSpellingOfAPathPassesUnchecked(t *testing.T) {
	s := newIdentityStage(t)
	s.as(s.root, 0, "apply", "-f", s.write("ann.yaml", bindingYAML("projects/shop/role-bindings", "ann", "viewer", "user:corp:ann")))
	ann := s.token("ann")
	ask := func(target string, headers ...string) (status string) {
		t.Helper()
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.emco.URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n%s\r\n", target, strings.Join(headers, ""))
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		return strings.TrimSpace(strings.TrimPrefix(line, "HTTP/1.1 "))
	}
	bearer := "Authorization: Bearer " + ann + "\r\n"
	if got := ask("/v2/projects/shop", bearer); !strings.HasPrefix(got, "200") {
		t.Fatalf("what ann may read: %s", got)
	}
	for _, target := range []string{
		"/v2/projects/bank", "/v2//projects/bank", "//v2/projects/bank", "/v2/projects/shop/../bank", "/v2/projects/shop/%2e%2e/bank", "/v2/projects/shop%2F..%2Fbank",
		"/v2/projects/%62ank", "/v2/projects/bank/", "/V2/projects/bank", "/v2/Projects/bank", "/v2%2Fprojects%2Fbank", "/healthz/../v2/projects/bank", "/v2/auth/issuers/../../projects/bank",
		"/v2/./projects/bank", "/v2/projects/bank;x", "/v2/projects/bank%00", "http://127.0.0.1/v2/projects/bank", "/v2/projects/bank?project=shop",
	} {
		for who, header := range map[string]string{"ann": bearer, "nobody": ""} {
			got := ask(target, header)
			if strings.HasPrefix(got, "2") || strings.HasPrefix(got, "5") {
				t.Errorf("%s as %s: %s", target, who, got)
			}
		}
	}
}

// S-17: what is revoked under load is refused by all processes, within two seconds or as soon as a busy machine
// lets them look; after five seconds without a look they would refuse everything.
func TestS17WhatIsRevokedIsRefusedEverywhere(t *testing.T) {
	b, err := bed.Open(t.Context(), bed.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	args := []string{"-target", "clm,dcm,placementintent,orchestrator", "-data", filepath.Join(t.TempDir(), "shared"), "-etcd.endpoints", b.EtcdURL(), "-etcd.prefix", "/s17/", "-auth.requests", "0"}
	s := newIdentityStage(t, args...)
	all := []*program.Emco{s.emco, s.start("two", args...), s.start("three", args...)}
	const limit = 6 * time.Second // five, and a request that is on its way
	for i := range 2 {
		name := fmt.Sprintf("robot-%d", i)
		token := strings.TrimSpace(s.as(s.root, 0, "auth", "token", "create", name, "--role", "viewer", "--place", "projects/shop").Out)
		for _, e := range all {
			known := func() error {
				if code, text := askAs(t.Context(), e, "/v2/projects/shop", token); code != 200 {
					return fmt.Errorf("%d %s", code, text)
				}
				return nil
			}
			if err := program.Poll(t.Context(), 20*time.Millisecond, known); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		var mu sync.Mutex
		last := map[*program.Emco]time.Time{} // when a request that was served began; guarded by mu
		for _, e := range all {
			for range 4 {
				readers.Go(func() {
					for ctx.Err() == nil {
						began := time.Now()
						if code, _ := askAs(ctx, e, "/v2/projects/shop", token); code != 200 {
							continue
						}
						mu.Lock()
						if began.After(last[e]) {
							last[e] = began
						}
						mu.Unlock()
					}
				})
			}
		}
		s.as(s.root, 0, "auth", "token", "revoke", name)
		revoked := time.Now()
		time.Sleep(limit + time.Second) // the load goes on
		cancel()
		readers.Wait()
		for at, e := range all {
			after := max(last[e].Sub(revoked), 0)
			t.Logf("process %d served the last request %s after the revocation", at+1, after.Round(time.Millisecond))
			if last[e].IsZero() || after > limit {
				t.Errorf("process %d served a request %s after the revocation", at+1, after)
			}
		}
	}
}

// S-18: EMCO does not believe the claims of a browser, or of a client without a certificate.
func TestS18PagesAndHeadersAreNotBelieved(t *testing.T) {
	s := newIdentityStage(t)
	for name, c := range map[string]struct {
		token   string
		headers []string
		want    int
	}{
		"a gateway's header without a gateway": {"", []string{"X-Forwarded-User", "root"}, 401},
		"two credentials, one wrong":           {"wrong", []string{"X-Forwarded-User", "root"}, 401},
		"a good token with such a header":      {s.root, []string{"X-Forwarded-User", "nobody"}, 200},
	} {
		if code, text := askAs(t.Context(), s.emco, "/v2/projects", c.token, c.headers...); code != c.want {
			t.Errorf("%s: %d %s, want %d", name, code, text, c.want)
		}
	}
	for header, want := range map[string]int{"Sec-Fetch-Site: cross-site": 403, "Sec-Fetch-Site: same-site": 403, "Origin: http://evil.example": 403, "Origin: null": 403, "Host: evil.example": 421} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.emco.URL()+"/v2/projects", strings.NewReader(`{"metadata":{"name":"evil"}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+s.root)
		r.Header.Set("Content-Type", "application/json")
		key, value, _ := strings.Cut(header, ": ")
		if r.Header.Set(key, value); key == "Host" {
			r.Host = value
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %d, want %d", header, res.StatusCode, want)
		}
	}
}

// S-18: a person signs in with a browser at one process, behind TLS, reads and writes at both, signs out at the one,
// and is refused at the other; or signs out at the provider, and is refused at both, though the process that knew it first is killed.
func TestS18SessionsOverTwoProcesses(t *testing.T) {
	b, err := bed.Open(t.Context(), bed.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	var one, two front
	doors := []*httptest.Server{httptest.NewTLSServer(&one), httptest.NewTLSServer(&two)}
	for _, d := range doors {
		t.Cleanup(d.Close)
	}
	args := []string{"-target", "clm,dcm,placementintent,orchestrator", "-data", filepath.Join(t.TempDir(), "shared"), "-etcd.endpoints", b.EtcdURL(), "-etcd.prefix", "/s18/"}
	s := newIdentityStageWith(t, fmt.Sprintf("{client: emco-web, redirect: %q}", doors[0].URL+"/v2/auth/callback"), "", args...)
	other := s.start("two", args...)
	one.to(t, s.emco.URL())
	two.to(t, other.URL())
	s.as(s.root, 0, "apply", "-f", s.write("ann.yaml", bindingYAML("projects/shop/role-bindings", "ann", "project-admin", "user:corp:ann")))

	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := doors[0].Client() // it trusts both: their certificate is the same
	browser.Jar = jar
	send := func(at int, method, path, body string) (code int, text string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, doors[at].URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if method != http.MethodGet {
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Origin", doors[at].URL)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		res, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(answer)
	}
	wants := func(want, at int, method, path, body string) string {
		t.Helper()
		code, text := send(at, method, path, body)
		if code != want {
			t.Fatalf("%s %s at process %d: %d %s, want %d", method, path, at+1, code, text, want)
		}
		return text
	}
	wants(401, 0, "GET", "/v2/projects/shop", "")
	s.op.SetPerson(map[string]any{"sub": "ann"})
	if got := wants(200, 0, "GET", "/v2/auth/login?return=/v2/projects/shop", ""); !strings.Contains(got, `url=/v2/projects/shop"`) {
		t.Errorf("after the sign-in: %s", got)
	}
	for at := range doors {
		if got := wants(200, at, "GET", "/v2/auth/whoami", ""); !strings.Contains(got, `"subject":"user:corp:ann"`) || !strings.Contains(got, `"via":"session"`) {
			t.Errorf("whoami at process %d: %s", at+1, got)
		}
		eventually(t, "each process knows the binding", func() error {
			if code, text := send(at, "GET", "/v2/projects/shop", ""); code != 200 {
				return fmt.Errorf("%d %s", code, text)
			}
			return nil
		})
		wants(404, at, "GET", "/v2/projects/bank", "")
		wants(201, at, "POST", "/v2/projects/shop/composite-apps", fmt.Sprintf(`{"metadata":{"name":"till-%d"},"spec":{"compositeAppVersion":"v1"}}`, at))
		wants(403, at, "POST", "/v2/projects", `{"metadata":{"name":"mine"}}`)
	}
	at, err := url.Parse(doors[0].URL)
	if err != nil {
		t.Fatal(err)
	}
	kept := jar.Cookies(at)
	wants(204, 0, "POST", "/v2/auth/logout", "")
	if left := jar.Cookies(at); len(kept) != 1 || len(left) != 0 {
		t.Fatalf("the browser had %d cookies, and has %d", len(kept), len(left))
	}
	jar.SetCookies(at, []*http.Cookie{{Name: kept[0].Name, Value: kept[0].Value, Path: "/", Secure: true}}) // somebody kept a copy
	wants(401, 0, "GET", "/v2/projects/shop", "")
	wants(401, 1, "GET", "/v2/projects/shop", "")
	if r := s.as(s.root, 0, "audit", "list", "--phase", "sign-out"); !strings.Contains(r.Out, "user:corp:ann") {
		t.Errorf("the audit log: %s%s", r.Out, r.Err)
	}

	// The provider ends the next session. The process that takes its report is killed at once.
	third, err := program.Start(t.Context(), program.Options{Bin: binaries(), Dir: s.path("three"), Args: append([]string{"-config", s.path("emco.yaml")}, args...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(third.Kill)
	s.op.Report("emco-web", oidctest.Reporter{URL: third.URL() + "/v2/auth/backchannel-logout", Names: true, Persons: true})
	wants(200, 0, "GET", "/v2/auth/login?return=/v2/projects/shop", "")
	wants(200, 1, "GET", "/v2/projects/shop", "")
	answers := s.op.SignOut(t, "ann", s.op.SignIn())
	third.Kill()
	if len(answers) != 1 || answers[0].Status != http.StatusOK {
		t.Fatalf("the report of the provider: %+v", answers)
	}
	for at := range doors {
		wants(401, at, "GET", "/v2/projects/shop", "")
	}
	if a := oidctest.Deliver(t, other.URL()+"/v2/auth/backchannel-logout", answers[0].Token); a.Status != http.StatusBadRequest {
		t.Errorf("the report again, at another process: %+v", a)
	}
}

// front ends TLS in front of a process.
type front struct {
	proxy atomic.Pointer[httputil.ReverseProxy]
}

func (f *front) to(t *testing.T, address string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	f.proxy.Store(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u); r.Out.Host = r.In.Host }})
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.proxy.Load().ServeHTTP(w, r) }
