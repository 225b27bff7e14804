package transport_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// No credential leaves in a text, in whatever form a server quotes it.
func TestRedactHidesAllForms(t *testing.T) {
	t.Parallel()
	r := git.Repo{User: "u", Token: "t/k n", SSHKey: "the-ssh-key", App: git.App{Key: "the-app-key"}}
	text := "t/k n t%2Fk+n t%2Fk%20n " + base64.StdEncoding.EncodeToString([]byte("u:t/k n")) +
		" the-ssh-key the-app-key more\x1b https://a:b@h/r"
	got := transport.Redact(r, text, "more")
	if want := "*** *** *** *** *** *** *** https://***@h/r"; got != want {
		t.Errorf("Redact = %q, want %q", got, want)
	}
	if got := transport.Redact(git.Repo{}, strings.Repeat("x", 5000)); len(got) > 1010 {
		t.Errorf("Redact returns %d bytes of a long text", len(got))
	}
}

// A credential of a few letters is in every text: hidden, it would leave nothing to read. Its form in a header is long.
func TestTextsStayReadableWithShortCredentials(t *testing.T) {
	t.Parallel()
	r := git.Repo{User: "u", Token: "e", SSHKey: "abc", App: git.App{Key: "four"}}
	text := "remote: the server refuses abc four " + base64.StdEncoding.EncodeToString([]byte("u:e"))
	if got, want := transport.Redact(r, text, "s"), "remote: the server refuses abc *** ***"; got != want {
		t.Errorf("Redact = %q, want %q", got, want)
	}
}

func TestFailClassifies(t *testing.T) {
	t.Parallel()
	r := git.Repo{URL: "https://h/r", Token: "s3cr3t"}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		kind errs.Kind
		text string
	}{
		{"an ended context is the cause", ended, errors.New("x"), errs.Unavailable, "op https://h/r: context canceled"},
		{"the network", t.Context(), errors.New("dial s3cr3t"), errs.Unavailable, "op https://h/r: dial ***"},
		{"a cut answer", t.Context(), io.ErrUnexpectedEOF, errs.Unavailable, "op https://h/r: the server ended the conversation early"},
		{"what is classified", t.Context(), errs.E(errs.Forbidden, "", "", errors.New("no s3cr3t")), errs.Forbidden, "op https://h/r: no ***"},
		{"a path to blame", t.Context(), git.BadPath("a", "why"), errs.Invalid, `op https://h/r: "a": why`},
	} {
		err := transport.Fail(c.ctx, r, "op", c.err)
		if !errs.Is(err, c.kind) || err.Error() != c.text {
			t.Errorf("%s: %v of kind %v, want %q of kind %v", c.name, err, errs.KindOf(err), c.text, c.kind)
		}
	}
	if err := transport.Fail(t.Context(), r, "op", nil); err != nil {
		t.Errorf("Fail of nothing = %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]struct {
		wait  time.Duration
		asked bool
	}{
		"": {time.Minute, false}, "7": {7 * time.Second, true}, "99999999": {time.Hour, true}, "-1": {time.Minute, true},
		"soon": {time.Minute, true}, "Mon, 02 Jan 2006 15:04:05 GMT": {0, true},
	} {
		if wait, asked := transport.RetryAfter(header); wait != want.wait || asked != want.asked {
			t.Errorf("RetryAfter(%q) = %v, %v, want %v, %v", header, wait, asked, want.wait, want.asked)
		}
	}
}

// A request that carries data is never redirected, others only within the server.
func TestH18RedirectsStayWithinTheServer(t *testing.T) {
	t.Parallel()
	var evilAsked atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { evilAsked.Add(1) }))
	t.Cleanup(evil.Close)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, evil.URL, http.StatusTemporaryRedirect)
		case "/moved":
			http.Redirect(w, r, "/here", http.StatusTemporaryRedirect)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusTemporaryRedirect)
		}
	}))
	t.Cleanup(srv.Close)
	client, err := transport.NewClients(outbound.Policy{}.Check).Get(git.Repo{})
	if err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]errs.Kind{
		"GET /away": errs.Forbidden, "POST /away": errs.Forbidden, "POST /moved": errs.Forbidden, "GET /loop": errs.Unavailable, "GET /moved": errs.Internal,
	} {
		method, path, _ := strings.Cut(request, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if errs.KindOf(err) != want || (err == nil) != (want == errs.Internal) {
			t.Errorf("%s: %v of kind %v, want %v", request, err, errs.KindOf(err), want)
		}
	}
	if n := evilAsked.Load(); n != 0 {
		t.Errorf("the other server was asked %d times", n)
	}
}

func TestH17AddressesAreCheckedWhenDialled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		address string
		ok      bool
	}{
		{"169.254.169.254", false},
		{"::ffff:169.254.169.254", false},
		{"fe80::1", false},
		{"0.0.0.0", false},
		{"224.0.0.1", false},
		{"127.0.0.1", true},
		{"10.0.0.1", true},
		{"140.82.121.4", true},
	} {
		if err := (outbound.Policy{}).Check(netip.MustParseAddr(c.address)); (err == nil) != c.ok {
			t.Errorf("Check(%s) = %v, want admitted: %v", c.address, err, c.ok)
		}
	}
	nobody := func(a netip.Addr) error { return errs.E(errs.Forbidden, "dial", "", fmt.Errorf("not %s", a)) }
	conn, err := outbound.Dialer(nobody).DialContext(t.Context(), "tcp", "localhost:1")
	if !errs.Is(err, errs.Forbidden) {
		t.Errorf("dialling a name whose address is refused: %v, %v, want Forbidden", conn, err)
	}
}

func TestClientsAreSharedByCertificates(t *testing.T) {
	t.Parallel()
	clients := transport.NewClients(outbound.Policy{}.Check)
	a, err := clients.Get(git.Repo{URL: "https://a/r"})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := clients.Get(git.Repo{URL: "https://b/r"}); err != nil || a != b {
		t.Errorf("two repositories without certificates have two clients, %v", err)
	}
	if _, err := clients.Get(git.Repo{CA: "none"}); !errs.Is(err, errs.Invalid) {
		t.Errorf("a broken CA: %v, want Invalid", err)
	}
	clients.CloseIdle()
}

// A server that asks for a client certificate gets the repository's, and no other one.
func TestClientCertificatesArePresented(t *testing.T) {
	t.Parallel()
	cert, key := clientCertificate(t)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // the refused handshake is expected
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(cert))
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	clients := transport.NewClients(outbound.Policy{}.Check)
	r := git.Repo{CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})), ClientCert: cert, ClientKey: git.Secret(key)}
	get := func(r git.Repo) error {
		client, err := clients.Get(r)
		if err != nil {
			return err
		}
		resp, err := client.Get(srv.URL)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	if err := get(r); err != nil {
		t.Errorf("with the certificate: %v", err)
	}
	if err := get(git.Repo{CA: r.CA}); err == nil {
		t.Error("a repository without a certificate is let in, by another one's")
	}
	r.ClientKey = "none"
	if err := get(r); !errs.Is(err, errs.Invalid) {
		t.Errorf("a broken pair: %v, want Invalid", err)
	}
}

func clientCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	raw, err := x509.CreateCertificate(rand.Reader, about, about, public, private)
	if err != nil {
		t.Fatal(err)
	}
	rawKey, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: rawKey}))
}
