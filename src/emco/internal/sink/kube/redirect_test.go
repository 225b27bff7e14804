package kube_test

import (
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
)

// An API server that redirects elsewhere does not get the token there: neither to another
// port nor to plain http.
func TestF61RedirectsDoNotCarryTheToken(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(thief.Close)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c, err := kube.New(kube.Options{}).Connect(config(`server: "`+server.URL+`", certificate-authority-data: `+base64.StdEncoding.EncodeToString(ca), `token: hunter2`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Reach(t.Context()); err == nil || asked.Load() != 0 {
		t.Errorf("Reach = %v, and the other server was asked %d times", err, asked.Load())
	}
}

// Addresses of metadata services are refused when they are dialled.
func TestF61LinkLocalAddressesAreNotDialled(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"https://169.254.169.254", "https://[fd00:ec2::254]", "https://100.100.100.200"} {
		c, err := kube.New(kube.Options{}).Connect(config(`server: "`+server+`"`, `token: hunter2`))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if err := c.Reach(t.Context()); err == nil || errs.KindOf(err) != errs.Forbidden {
			t.Errorf("Reach of %s = %v of kind %v, want Forbidden", server, err, errs.KindOf(err))
		}
	}
}
