package azurearc_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/azurearc"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/azurearc/arctest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/azurearc/arm"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/syncertest"
	"github.com/emco-orchestrator/emco/src/git"
)

var update = flag.Bool("update", false, "rewrite golden files")

const config = "fluxConfigurations/config-2175235486952720473"

func TestPlan(t *testing.T) {
	t.Parallel()
	b, err := azurearc.NewPlatform(nil).Open(options())
	if err != nil {
		t.Fatal(err)
	}
	syncertest.Golden(t, syncer.Owned(b), "testdata/plan.txtar", *update)
}

func options() azurearc.Options {
	return azurearc.Options{
		Tenant: arctest.Tenant, Client: arctest.Client, Secret: arctest.Secret,
		Subscription: arctest.Subscription, Group: arctest.Group, Cluster: "site-1",
	}
}

// backendFixture is a backend with a fake server.
type backendFixture struct {
	*testing.T
	*arctest.Server
	azure *arm.Client
	syncer.Bootstrapper
}

func newBench(t *testing.T, o azurearc.Options, change ...func(*arm.Options)) *backendFixture {
	t.Helper()
	s := arctest.New(t, "site-1")
	ao := arm.Default()
	ao.Authority, ao.Manager, ao.CA = s.URL, s.URL, s.CA
	for _, c := range change {
		c(&ao)
	}
	azure, err := arm.New(ao)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = azure.Close() })
	b := &backendFixture{T: t, Server: s, azure: azure}
	b.Bootstrapper = b.open(o)
	return b
}

func (b *backendFixture) open(o azurearc.Options) syncer.Bootstrapper {
	b.Helper()
	backend, err := azurearc.NewPlatform(b.azure).Open(o)
	if err != nil {
		b.Fatalf("Open: %v", err)
	}
	return syncer.Bootstrapping(syncer.Owned(backend))
}

var target = syncertest.Target("provider1+cluster1")

func (b *backendFixture) bootstrap(apps ...string) {
	b.Helper()
	if err := b.Bootstrap(b.Context(), target, apps); err != nil {
		b.Fatalf("Bootstrap(%v): %v", apps, err)
	}
}

// has checks which apps the configuration names, by their paths.
func (b *backendFixture) has(apps ...string) {
	b.Helper()
	p, _ := b.Resource("site-1", config)
	if p == nil {
		b.Fatalf("there is no %s", config)
	}
	var got []string
	for _, k := range p["kustomizations"].(map[string]any) {
		got = append(got, k.(map[string]any)["path"].(string))
	}
	slices.Sort(got)
	var want []string
	for _, a := range apps {
		want = append(want, "./clusters/provider1+cluster1/context/2175235486952720473/app/"+a)
	}
	if !slices.Equal(got, want) {
		b.Errorf("Azure has kustomizations for %v, want %v", got, want)
	}
}

func (b *backendFixture) called(want ...string) {
	b.Helper()
	got := slices.DeleteFunc(b.Calls(), func(c string) bool { return strings.Contains(c, "/operations/") })
	if !slices.Equal(got, want) {
		b.Errorf("calls were %q, want %q", got, want)
	}
}

func TestAppsAreAddedAndRemoved(t *testing.T) {
	t.Parallel()
	b := newBench(t, options())
	b.bootstrap("web", "db")
	b.has("db", "web")
	b.called("GET "+config, "PUT "+config)
	b.bootstrap("web", "db") // nothing has changed: nothing is written
	b.called("GET " + config)
	b.bootstrap("web")
	b.has("web")
	b.called("GET "+config, "PUT "+config)
	for range 2 { // what is absent is fine
		if err := b.Release(t.Context(), target); err != nil {
			t.Fatalf("Release: %v", err)
		}
	}
	if p, _ := b.Resource("site-1", config); p != nil {
		t.Errorf("%s is still there: %v", config, p)
	}
}

func TestTheConfigurationInAzure(t *testing.T) {
	t.Parallel()
	o := options()
	o.Interval, o.Retry, o.Timeout = 30e9, 15e9, 120e9
	o.ReadUser, o.ReadToken = "reader", "read-only"
	o.Scope, o.Namespace = "namespace", "tenant-a"
	b := newBench(t, o)
	b.bootstrap("web")
	p, sealed := b.Resource("site-1", config)
	if want := base64.StdEncoding.EncodeToString([]byte("read-only")); sealed["httpsKey"] != want || len(sealed) != 1 {
		t.Errorf("protected settings are %v", slices.Collect(maps.Keys(sealed)))
	}
	repo := p["gitRepository"].(map[string]any)
	k := p["kustomizations"].(map[string]any)["web"].(map[string]any)
	for what, pair := range map[string][2]any{
		"scope":     {p["scope"], "namespace"},
		"namespace": {p["namespace"], "tenant-a"},
		"url":       {repo["url"], "https://git.example.org/fleet/edge.git"},
		"branch":    {repo["repositoryRef"].(map[string]any)["branch"], "main"},
		"user":      {repo["httpsUser"], "reader"},
		"interval":  {repo["syncIntervalInSeconds"], 30.0},
		"prune":     {k["prune"], true},
		"retry":     {k["retryIntervalInSeconds"], 15.0},
		"timeout":   {k["timeoutInSeconds"], 120.0},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %v, want %v", what, pair[0], pair[1])
		}
	}
}

func TestAppsOfAConfinedCloudStayInItsNamespace(t *testing.T) {
	t.Parallel()
	b := newBench(t, options())
	confined := target
	confined.Namespace, confined.Cloud.Confined = "tenant-b", true
	if err := b.Bootstrap(t.Context(), confined, []string{"web"}); err != nil {
		t.Fatal(err)
	}
	if p, _ := b.Resource("site-1", config); p["scope"] != "namespace" || p["namespace"] != "tenant-b" {
		t.Errorf("scope %v, namespace %v", p["scope"], p["namespace"])
	}
}

func TestNamesAreValidInAzure(t *testing.T) {
	t.Parallel()
	b := newBench(t, options())
	apps := []string{"web", "Web", "we_b", "we-b", strings.Repeat("long", 30) + "1", strings.Repeat("long", 30) + "2"}
	b.bootstrap(apps...) // the server refuses names that Flux would refuse
	slices.Sort(apps)
	b.has(apps...)
}

func TestChangesByOthersAreReverted(t *testing.T) {
	t.Parallel()
	b := newBench(t, options())
	b.bootstrap("web")
	b.Modify("site-1", config, func(p map[string]any) { p["suspend"] = true })
	b.bootstrap("web")
	if p, _ := b.Resource("site-1", config); p["suspend"] != false {
		t.Error("a configuration that was suspended stays so")
	}
}

// Two processes may write the same configuration for a moment: the slower one reads
// again.
func TestConcurrentWriters(t *testing.T) {
	t.Parallel()
	b := newBench(t, options())
	b.bootstrap("web")
	b.Break(arctest.Fault{Method: "PUT", Status: 412, Times: 1})
	b.bootstrap("web", "db")
	b.has("db", "web")

	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			err := b.Bootstrap(t.Context(), target, []string{"web", fmt.Sprint("app-", i)})
			if err != nil && !errs.Is(err, errs.Throttled) {
				t.Errorf("Bootstrap: %v", err)
			}
		})
	}
	all.Wait()
	b.bootstrap("web")
	b.has("web")
}

// A write carries the entity tag of what was read: a concurrent write is read before it is
// replaced.
func TestWritesCarryEntityTags(t *testing.T) {
	t.Parallel()
	b := newBench(t, options())
	for _, app := range []string{"cache", "db"} { // the configuration is new, then it exists
		b.Overtake("site-1", config, map[string]any{"provisioningState": "Succeeded", "suspend": true})
		b.bootstrap("web", app)
		b.called("GET "+config, "PUT "+config, "GET "+config, "PUT "+config)
		b.has(app, "web")
	}
}

func TestLostAnswers(t *testing.T) {
	t.Parallel()
	b := newBench(t, options())
	b.Break(arctest.Fault{Method: "PUT", Status: 504, After: true, Times: 1})
	if err := b.Bootstrap(t.Context(), target, []string{"web"}); !errs.Is(err, errs.Unavailable) {
		t.Fatalf("Bootstrap with a lost answer = %v, want Unavailable", err)
	}
	b.Calls()
	for {
		err := b.Bootstrap(t.Context(), target, []string{"web"})
		if err == nil {
			break
		}
		if !errs.Is(err, errs.Throttled) { // Azure is not done with it
			t.Fatal(err)
		}
		b.Modify("site-1", config, func(p map[string]any) { p["provisioningState"] = "Succeeded" })
	}
	for _, c := range b.Calls() {
		if strings.HasPrefix(c, "PUT") {
			t.Error("what had been written was written again")
		}
	}
}

func TestAnOperationThatFails(t *testing.T) {
	t.Parallel()
	b := newBench(t, options())
	b.Fail("the agent cannot reach the repository")
	err := b.Bootstrap(t.Context(), target, []string{"web"})
	if !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "the agent cannot reach the repository") {
		t.Errorf("Bootstrap = %v, want Azure's reason", err)
	}
	b.Fail("")
	b.bootstrap("web") // it is written again although it reads as wanted
	b.has("web")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]errs.Kind{
		400: errs.Invalid, 401: errs.Unauthorized, 403: errs.Forbidden, 409: errs.Conflict, 500: errs.Unavailable, 503: errs.Unavailable,
	} {
		b := newBench(t, options())
		b.Break(arctest.Fault{Method: "PUT", Status: status})
		err := b.Bootstrap(t.Context(), target, []string{"web"})
		if !errs.Is(err, want) || strings.Contains(err.Error(), arctest.Secret) {
			t.Errorf("Bootstrap refused with %d = %v, want %v", status, err, want)
		}
	}
	o := options()
	o.Cluster = "site-2"
	if err := newBench(t, o).Bootstrap(t.Context(), target, []string{"web"}); !errs.Is(err, errs.NotFound) {
		t.Errorf("Bootstrap on a cluster that Azure does not know = %v, want NotFound", err)
	}
}

func TestThrottling(t *testing.T) {
	t.Parallel()
	b := newBench(t, options())
	b.Limit(0)
	err := b.Bootstrap(t.Context(), target, []string{"web"})
	if !errs.Is(err, errs.Throttled) || errs.RetryAfter(err) != 17*time.Second {
		t.Errorf("Bootstrap = %v, come back after %v; want the 17 s that Azure says", err, errs.RetryAfter(err))
	}
	b.Limit(-1)
	b.Calls()
	other := options() // of the same account: Azure counts them together
	other.Namespace = "other"
	err = b.open(other).Bootstrap(t.Context(), target, []string{"web"})
	if !errs.Is(err, errs.Throttled) || len(b.Calls()) > 0 {
		t.Errorf("Bootstrap = %v; want it to be held back without asking", err)
	}
}

func TestWritesAreLimited(t *testing.T) {
	t.Parallel()
	b := newBench(t, options(), func(o *arm.Options) { o.Writes = 20 }) // two at once
	b.bootstrap("a")
	b.bootstrap("b")
	err := b.Bootstrap(t.Context(), target, []string{"c"})
	if after := errs.RetryAfter(err); !errs.Is(err, errs.Throttled) || after < time.Minute || after > 3*time.Minute {
		t.Errorf("the third write = %v, after %v; want it to wait for its share", err, after)
	}
	b.bootstrap("b") // reads go on
}

func TestAReserveIsLeftToOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t, options())
	b.Remaining(90)
	b.bootstrap("a")
	if err := b.Bootstrap(t.Context(), target, []string{"b"}); !errs.Is(err, errs.Throttled) {
		t.Errorf("a write while Azure says that few are left = %v, want Throttled", err)
	}
}

func TestUnreachableAzure(t *testing.T) {
	t.Parallel()
	b := newBench(t, options())
	b.Break(arctest.Fault{Drop: true})
	if err := b.Bootstrap(t.Context(), target, []string{"web"}); !errs.Is(err, errs.Unavailable) {
		t.Errorf("Bootstrap = %v, want Unavailable", err)
	}
	start := time.Now()
	err := b.Bootstrap(t.Context(), target, []string{"web"})
	if !errs.Is(err, errs.Throttled) || errs.RetryAfter(err) == 0 || time.Since(start) > time.Second {
		t.Errorf("Bootstrap again = %v; want it to say at once when to come back", err)
	}
}

// While EMCO leaves Azure alone, the error still gives the reason.
func TestF09TheReasonOfAPauseIsGiven(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault func(b *backendFixture)
		want  string
	}{
		"Azure is unreachable":   {func(b *backendFixture) { b.Break(arctest.Fault{Drop: true}) }, "cannot reach Azure: sign in to Azure: "},
		"Azure asks for a pause": {func(b *backendFixture) { b.Limit(0) }, "Azure answered another request with 429 Too Many Requests"},
	} {
		b := newBench(t, options())
		tt.fault(b)
		if err := b.Bootstrap(t.Context(), target, []string{"web"}); err == nil {
			t.Fatalf("%s: no error", name)
		}
		for range 2 {
			if err := b.Bootstrap(t.Context(), target, []string{"web"}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got %v, want it to say %q", name, err, tt.want)
			}
		}
	}
	b := newBench(t, options(), func(o *arm.Options) { o.Writes = 1 })
	b.bootstrap("a")
	if err := b.Bootstrap(t.Context(), target, []string{"b"}); err == nil || !strings.Contains(err.Error(), "EMCO's share of Azure's request limit is used up") {
		t.Errorf("after the last write: got %v", err)
	}
}

func TestBootstrapDoesNotBlockOnLongOperations(t *testing.T) {
	t.Parallel()
	b := newBench(t, options())
	b.Polls = 1 << 30
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- b.Bootstrap(ctx, target, []string{"web"}) }()
	follows := func(call string) bool { return strings.Contains(call, "/operations/") }
	for !slices.ContainsFunc(b.Calls(), follows) {
		select {
		case err := <-ended:
			t.Fatalf("Bootstrap = %v, before it follows what Azure does", err)
		default:
		}
	}
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "not done") {
		t.Errorf("Bootstrap = %v, want that Azure is not done", err)
	}
	b.Calls()
	if err := b.Bootstrap(t.Context(), target, []string{"web"}); !errs.Is(err, errs.Throttled) {
		t.Errorf("Bootstrap while Azure is at it = %v, want to be asked to come back", err)
	}
	b.called("GET " + config) // and nothing is written again
}

func TestIdentities(t *testing.T) {
	t.Parallel()
	_, stranger := certificate(t)
	key, known := certificate(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("the-workload"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		secret, certificate git.Secret
		file, trusted       string
		good                bool
	}{
		"secret":                    {secret: arctest.Secret, good: true},
		"wrong secret":              {secret: "wrong-secret"},
		"certificate":               {certificate: known, good: true},
		"certificate of a stranger": {certificate: stranger},
		"workload":                  {file: token, trusted: "the-workload", good: true},
		"workload of a stranger":    {file: token, trusted: "another"},
	} {
		o := options()
		o.Secret, o.Certificate = c.secret, c.certificate
		b := newBench(t, o, func(a *arm.Options) { a.TokenFile = c.file })
		b.Trust(&key.PublicKey)
		b.Federate(c.trusted)
		err := b.Bootstrap(t.Context(), target, []string{"web"})
		switch {
		case c.good && err != nil:
			t.Errorf("%s: %v", name, err)
		case !c.good && (!errs.Is(err, errs.Unauthorized) || !strings.Contains(err.Error(), "AADSTS")):
			t.Errorf("%s: %v, want Unauthorized with the authority's code", name, err)
		case err != nil && strings.Contains(err.Error(), "wrong-secret"):
			t.Errorf("%s: the error shows the secret: %v", name, err)
		}
	}
}

// certificate returns a key and its certificate, both in PEM, as Azure's tools write them.
func certificate(t *testing.T) (*rsa.PrivateKey, git.Secret) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "emco"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, git.Secret(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})) +
		git.Secret(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestTheExtensionIsInstalledOnce(t *testing.T) {
	t.Parallel()
	o := options()
	o.Extension = "ensure"
	b := newBench(t, o)
	b.bootstrap("web")
	b.called("GET "+config, "GET extensions", "PUT extensions/flux", "PUT "+config)
	next := target
	next.Deployment = "99"
	if err := b.Bootstrap(t.Context(), next, []string{"web"}); err != nil {
		t.Fatal(err)
	}
	b.called("GET fluxConfigurations/config-99", "GET extensions", "PUT fluxConfigurations/config-99")
}

func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*azurearc.Options){
		"no cluster":      func(o *azurearc.Options) { o.Cluster = "" },
		"a path":          func(o *azurearc.Options) { o.Group = "edge/providers" },
		"dots":            func(o *azurearc.Options) { o.Cluster = ".." },
		"no identity":     func(o *azurearc.Options) { o.Secret = "" },
		"two identities":  func(o *azurearc.Options) { o.Certificate = "x" },
		"a bad key":       func(o *azurearc.Options) { o.Secret, o.Certificate = "", "no-pem-but-secret" },
		"scope":           func(o *azurearc.Options) { o.Scope = "galaxy" },
		"two readers":     func(o *azurearc.Options) { o.ReadUser, o.ReadToken, o.SecretRef = "u", "t", "s" },
		"token alone":     func(o *azurearc.Options) { o.ReadToken = "t" },
		"key alone":       func(o *azurearc.Options) { o.ReadKey = "k" },
		"hostile tenant":  func(o *azurearc.Options) { o.Tenant = "../../common" },
		"extension twice": func(o *azurearc.Options) { o.Extension = "yes" },
	} {
		o := options()
		change(&o)
		s := arctest.New(t)
		ao := arm.Default()
		ao.Authority, ao.Manager, ao.CA = s.URL, s.URL, s.CA
		azure, err := arm.New(ao)
		if err != nil {
			t.Fatal(err)
		}
		_, err = azurearc.NewPlatform(azure).Open(o)
		if !errs.Is(err, errs.Invalid) || strings.Contains(fmt.Sprint(err), "no-pem-but-secret") {
			t.Errorf("%s: Open = %v, want Invalid", name, err)
		}
	}
}

// A token must go nowhere but to the resource manager.
func TestAddressesElsewhereAreNotFollowed(t *testing.T) {
	t.Parallel()
	b := newBench(t, options())
	b.Break(arctest.Fault{Method: "GET", Status: 307, Times: 1})
	if err := b.Bootstrap(t.Context(), target, []string{"web"}); err == nil || errors.Is(err, arm.ErrChanged) {
		t.Errorf("a redirect = %v, want an error", err)
	}
	var tokens atomic.Int64
	other := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { tokens.Add(1) })) // its certificate is trusted, too
	defer other.Close()
	b.Operations = other.URL
	err := b.Bootstrap(t.Context(), target, []string{"web"})
	if !errs.Is(err, errs.Unavailable) || tokens.Load() > 0 {
		t.Errorf("a write whose operation is on another host = %v after %d requests there, want Unavailable and none", err, tokens.Load())
	}
	if err := b.Release(t.Context(), target); !errs.Is(err, errs.Unavailable) || tokens.Load() > 0 {
		t.Errorf("a deletion whose operation is on another host = %v after %d requests there, want Unavailable and none", err, tokens.Load())
	}
}

// A failed poll ends the wait for the operation, with the kind of its error.
func TestOperationsThatCannotBePolled(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]errs.Kind{429: errs.Throttled, 500: errs.Unavailable, 403: errs.Forbidden} {
		b := newBench(t, options())
		b.Break(arctest.Fault{Method: "GET", Path: "/operations/", Status: status, RetryAfter: "9"})
		err := b.Bootstrap(t.Context(), target, []string{"web"})
		if !errs.Is(err, want) || want == errs.Throttled && errs.RetryAfter(err) != 9*time.Second {
			t.Errorf("polls refused with %d: %v, come back after %v; want %v", status, err, errs.RetryAfter(err), want)
		}
	}
}
