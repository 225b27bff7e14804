package app_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/emco-orchestrator/emco/src/api/certtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	pb "github.com/emco-orchestrator/emco/src/emco/internal/statusnotify/statusnotifypb"
)

// tlsStage is a running program whose API needs client certificates.
type tlsStage struct {
	*testing.T
	ca, clients certtest.Authority
	dir         string
	app         *app.App
	log         *logBuffer
	stop        func() error
}

func newTLSStage(t *testing.T, change func(*config.Config)) *tlsStage {
	t.Helper()
	s := &tlsStage{T: t, ca: certtest.New(t), clients: certtest.New(t), dir: t.TempDir(), log: &logBuffer{}}
	c := config.Default()
	c.Data = filepath.Join(s.dir, "data")
	c.HTTP.Address, c.GRPC.Address, c.Ops.Address = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.HTTP.Cert, c.HTTP.CertKey, c.HTTP.ClientCA = filepath.Join(s.dir, "tls.crt"), filepath.Join(s.dir, "tls.key"), filepath.Join(s.dir, "ca.crt")
	certtest.WritePair(s.T, c.HTTP.Cert, c.HTTP.CertKey, s.ca.Issue(s.T, "first"))
	s.clients.Write(t, c.HTTP.ClientCA)
	c.Auth.Mode = "off"
	change(&c)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	a, err := app.New(ctx, c, slog.New(slog.NewJSONHandler(s.log, nil)), cheap()...)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	s.app = a
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	s.stop = func() error { cancel(); return <-ended }
	eventually(t, "it is ready", func() string {
		if code, text := s.readyz(); code != 200 {
			return text
		}
		return ""
	})
	return s
}

// readyz asks the ops address whether the program is ready.
func (s *tlsStage) readyz() (code int, text string) {
	s.Helper()
	res, err := http.Get("http://" + s.app.OpsAddress() + "/readyz")
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// get reads projects over a new connection, and returns the name of the server's certificate.
func (s *tlsStage) get(client ...tls.Certificate) (name string, proto int, err error) {
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool(), Certificates: client}, ForceAttemptHTTP2: true}
	defer t.CloseIdleConnections()
	res, err := (&http.Client{Transport: t}).Get("https://" + s.app.Address() + "/v2/projects")
	if err != nil {
		return "", 0, err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return "", 0, err
	}
	return res.TLS.PeerCertificates[0].Subject.CommonName, res.ProtoMajor, nil
}

// Clients need a certificate of the configured authority; HTTP/2 and gRPC work; probes need nothing.
func TestTheAPIServesTLSToClientsWithCertificates(t *testing.T) {
	t.Parallel()
	s := newTLSStage(t, func(*config.Config) {})
	mine := s.clients.Issue(s.T, "gateway")
	if name, proto, err := s.get(mine); err != nil || name != "first" || proto != 2 {
		t.Errorf("a client with a certificate: %s, HTTP/%d, %v", name, proto, err)
	}
	for what, certs := range map[string][]tls.Certificate{"none": nil, "one of another authority": {certtest.New(t).Issue(t, "gateway")}} {
		if _, _, err := s.get(certs...); err == nil {
			t.Errorf("a client is answered whose certificate is %s", what)
		}
	}
	if res, err := http.Get("http://" + s.app.Address() + "/v2/projects"); err != nil || res.StatusCode != 400 {
		t.Errorf("plain HTTP: %v, %v", res, err)
	}
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 200, "/version": 200, "/v2/projects": 404} {
		res, err := http.Get("http://" + s.app.OpsAddress() + path)
		if err != nil || res.StatusCode != want {
			t.Errorf("ops.address: GET %s: %v, %v, want %d", path, res, err, want)
		}
	}
	dial := func(certs ...tls.Certificate) codes.Code {
		conn, err := grpc.NewClient(s.app.GRPCAddress(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: s.ca.Pool(), Certificates: certs})))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		stream, err := pb.NewStatusNotifyClient(conn).StatusRegister(t.Context(), &pb.StatusRegistration{})
		if err == nil {
			_, err = stream.Recv()
		}
		return status.Code(err)
	}
	if got := dial(mine); got != codes.InvalidArgument { // it was asked
		t.Errorf("gRPC with a certificate: %s", got)
	}
	if got := dial(); got != codes.Unavailable {
		t.Errorf("gRPC without a certificate: %s", got)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

// A renewed certificate is used without a restart; files that do not fit leave the former one in use.
func TestCertificatesAreReadAgainWhenTheyChange(t *testing.T) {
	t.Parallel()
	s := newTLSStage(t, func(*config.Config) {})
	mine := s.clients.Issue(s.T, "gateway")
	serves := func(want string) {
		t.Helper()
		eventually(t, "the certificate is "+want, func() string {
			name, _, err := s.get(mine)
			if err != nil {
				t.Fatalf("while the files change: %v", err)
			}
			return unless(name, want)
		})
	}
	serves("first")
	if err := os.WriteFile(filepath.Join(s.dir, "tls.crt"), []byte("spoilt"), 0o600); err != nil {
		t.Fatal(err)
	}
	serves("first")
	certtest.WritePair(s.T, filepath.Join(s.dir, "tls.crt"), filepath.Join(s.dir, "tls.key"), s.ca.Issue(s.T, "second"))
	serves("second")
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

// Certificates that have expired or are of another authority, and old TLS, are refused, and the log has one line about all of them in
// a minute. When the authority of the clients is replaced, those of the new one are served and those of the old one are not, without
// a restart.
func TestH67CertificatesThatAreNotGood(t *testing.T) {
	t.Parallel()
	s := newTLSStage(t, func(*config.Config) {})
	expired := func(a certtest.Authority) tls.Certificate {
		return a.IssueUntil(t, "gateway", time.Now().Add(-time.Minute))
	}
	forServers := s.clients.IssueWith(t, "gateway", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	for range 5 {
		for what, c := range map[string]tls.Certificate{"has expired": expired(s.clients), "is of another authority": certtest.New(t).Issue(t, "gateway"), "is for servers": forServers} {
			if _, _, err := s.get(c); err == nil {
				t.Errorf("a client is served whose certificate %s", what)
			}
		}
	}
	mine := s.clients.Issue(t, "gateway")
	old := &tls.Config{RootCAs: s.ca.Pool(), Certificates: []tls.Certificate{mine}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	if conn, err := tls.Dial("tcp", s.app.Address(), old); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.1 is served")
	}
	if _, _, err := s.get(mine); err != nil {
		t.Errorf("a good certificate beside bad ones: %v", err)
	}
	const line = "the TLS handshake of a client failed"
	if n := strings.Count(s.log.String(), line); n != 1 && n != 2 { // two if a minute ends meanwhile
		t.Errorf("%d lines are about 16 refused clients, want one in a minute: %s", n, s.log.tail(20))
	}

	next := certtest.New(t)
	next.Write(t, filepath.Join(s.dir, "ca.crt"))
	theirs := next.Issue(t, "gateway")
	eventually(t, "a certificate of the new authority is accepted", func() string {
		if _, _, err := s.get(theirs); err != nil {
			return err.Error()
		}
		return ""
	})
	if _, _, err := s.get(mine); err == nil {
		t.Error("a certificate of the former authority is still accepted")
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

// A stopping process answers 503 on /readyz and goes on accepting for http.linger, so that a load balancer
// that asks sees it before a request is refused.
func TestAStoppingProcessLingers(t *testing.T) {
	t.Parallel()
	s := newTLSStage(t, func(c *config.Config) {
		c.HTTP.Cert, c.HTTP.CertKey, c.HTTP.ClientCA, c.HTTP.Linger = "", "", "", config.Duration(3*time.Second)
	})
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- s.stop() }()
	var ready string
	eventually(t, "it answers that it is not ready", func() string {
		code, text := s.readyz()
		ready = text
		return unless(code, 503)
	})
	if !strings.Contains(ready, "stops") {
		t.Errorf("/readyz says %q", ready)
	}
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: false}}
	res, err := fresh.Get("http://" + s.app.Address() + "/v2/projects")
	if err != nil || res.StatusCode != 200 || !res.Close {
		t.Errorf("a request meanwhile: %+v, %v; want an answer that closes the connection", res, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("it ended after %s", took)
	}
	if _, err := fresh.Get("http://" + s.app.Address() + "/v2/projects"); err == nil {
		t.Error("it answers after its end")
	}
}

// With identity, a certificate names its user, who may do what roles allow: over HTTP and gRPC. Clients with
// tokens need none; a certificate of another authority is refused.
func TestCertificatesWithIdentity(t *testing.T) {
	t.Parallel()
	const bootstrap = "a-bootstrap-token-of-32-characters"
	s := newTLSStage(t, func(c *config.Config) {
		c.Auth.Mode, c.Auth.BootstrapFile = "on", filepath.Join(t.TempDir(), "bootstrap")
		if err := os.WriteFile(c.Auth.BootstrapFile, []byte(bootstrap), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	ask := func(token, method, path, body string, certs ...tls.Certificate) (code int, text string) {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool(), Certificates: certs}}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.app.Address()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(answer)
	}
	want := func(what string, code int, got int, text string) {
		t.Helper()
		if got != code {
			t.Errorf("%s: got %d %s, want %d", what, got, text, code)
		}
	}
	ann, bob := s.clients.Issue(s.T, "ann"), s.clients.Issue(s.T, "bob")
	for _, doc := range [][2]string{
		{"/v2/projects", named("shop")},
		{"/v2/projects/shop/role-bindings", binding("look", "viewer", "user:cert:ann")},
		{"/v2/role-bindings", binding("admins", "platform-admin", "user:cert:root")},
	} {
		code, text := ask(bootstrap, "POST", doc[0], doc[1])
		want("POST "+doc[0], 201, code, text)
	}
	code, text := ask("", "GET", "/v2/auth/whoami", "", ann)
	want("whoami of ann", 200, code, text)
	if !strings.Contains(text, `"subject":"user:cert:ann"`) || !strings.Contains(text, `"via":"certificate"`) {
		t.Errorf("whoami of ann: %s", text)
	}
	for _, c := range []struct {
		what, method, path string
		certs              []tls.Certificate
		want               int
	}{
		{"what ann may read", "GET", "/v2/projects/shop", []tls.Certificate{ann}, 200},
		{"what ann may not change", "DELETE", "/v2/projects/shop", []tls.Certificate{ann}, 403},
		{"what bob may not read", "GET", "/v2/projects/shop", []tls.Certificate{bob}, 404},
		{"metrics without a role", "GET", "/metrics", []tls.Certificate{bob}, 403},
		{"no certificate", "GET", "/v2/projects/shop", nil, 401},
		{"no certificate, a public page", "GET", "/openapi.json", nil, 200},
		{"no certificate, the reference", "GET", "/reference", nil, 200},
		{"root changes it", "DELETE", "/v2/projects/shop/role-bindings/look", []tls.Certificate{s.clients.Issue(s.T, "root")}, 204},
		{"what ann may not read any more", "GET", "/v2/projects/shop", []tls.Certificate{ann}, 404},
	} {
		code, text := ask("", c.method, c.path, "", c.certs...)
		want(c.what, c.want, code, text)
	}
	if code, text := ask("", "GET", "/openapi.json", "", certtest.New(t).Issue(t, "ann")); code != 0 {
		t.Errorf("a certificate of another authority: %d %.80s", code, text)
	}
	code, text = ask("wrong", "GET", "/v2/projects/shop", "", ann)
	want("a wrong token beside a good certificate", 401, code, text)

	register := func(certs ...tls.Certificate) codes.Code {
		conn, err := grpc.NewClient(s.app.GRPCAddress(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: s.ca.Pool(), Certificates: certs})))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		stream, err := pb.NewStatusNotifyClient(conn).StatusRegister(t.Context(), &pb.StatusRegistration{
			ClientId: "test", Key: &pb.StatusRegistration_LcKey{LcKey: &pb.LcKey{Project: "shop", LogicalCloud: "stores"}},
		})
		if err == nil {
			_, err = stream.Recv()
		}
		return status.Code(err)
	}
	if got := register(); got != codes.Unauthenticated {
		t.Errorf("gRPC without a certificate: %s", got)
	}
	if got := register(bob); got != codes.NotFound {
		t.Errorf("gRPC as bob: %s", got)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

// A certificate that clients refuse because of its dates is used, and the log says so, at the start and when it comes later.
// The check of the settings warns of it, and a metric shows when it ends.
func TestACertificateThatHasEndedIsNoticed(t *testing.T) {
	t.Parallel()
	var c config.Config
	s := newTLSStage(t, func(of *config.Config) { c = *of })
	metric := func() string {
		res, err := http.Get("http://" + s.app.OpsAddress() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if value, found := strings.CutPrefix(line, "emco_api_certificate_end_timestamp_seconds "); found {
				return strings.TrimSpace(value)
			}
		}
		return "none"
	}
	shows := func(end time.Time) {
		t.Helper()
		eventually(t, "the metric is "+end.String(), func() string {
			if got, err := strconv.ParseFloat(metric(), 64); err != nil || int64(got) != end.Unix() {
				return fmt.Sprint("it is ", got, " ", err)
			}
			return ""
		})
	}
	check := func() string {
		t.Helper()
		code, text := command("config", "check", "-data", c.Data, "-http.cert", c.HTTP.Cert, "-http.certKey", c.HTTP.CertKey)
		if code != 0 {
			t.Errorf("the check ends with %d: %s", code, text)
		}
		return text
	}
	const ended, early = "clients refuse the certificate in ", "it is not valid before "
	if log := s.log.String(); strings.Contains(log, ended) || check() != "" {
		t.Errorf("a good certificate is warned of: %s\n%s", check(), log)
	}
	for _, part := range []struct {
		want   string
		change func(*x509.Certificate)
	}{
		{"it ended at ", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }},
		{early, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(3*time.Hour)
		}},
	} {
		var end time.Time
		certtest.WritePair(t, c.HTTP.Cert, c.HTTP.CertKey, s.ca.IssueWith(t, "renewed", func(c *x509.Certificate) {
			part.change(c)
			end = c.NotAfter
		}))
		shows(end)
		if log := s.log.String(); !strings.Contains(log, ended+c.HTTP.Cert+": "+part.want) {
			t.Errorf("the log does not say %q:\n%s", part.want, log)
		}
		if text := check(); !strings.Contains(text, "emco: warning: http.cert: "+ended+c.HTTP.Cert+": "+part.want) {
			t.Errorf("the check says %q, want %q", text, part.want)
		}
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	log := &logBuffer{}
	a, err := app.New(t.Context(), c, slog.New(slog.NewJSONHandler(log, nil)), cheap()...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Run(ctx); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), early) {
		t.Errorf("the start does not warn:\n%s", log)
	}
}
