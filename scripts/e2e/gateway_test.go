package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
)

// tlsGateway ends TLS in front of emco. It forwards only reports of clusters, as docs/monitor.md requires,
// and records them.
type tlsGateway struct {
	*httptest.Server
	gate sync.RWMutex // held for reading while a report is in transit
	to   *url.URL     // emco, which has another address after each start; nil while the gateway is shut

	mu   sync.Mutex
	said bytes.Buffer      // all reports, unpacked
	last forwardedReport   // that emco answered with 204
	lost []forwardedReport // that arrived while the gateway was shut
}

// forwardedReport is a forwarded report with its time.
type forwardedReport struct {
	status.Report
	at time.Time
}

func newGateway(t testing.TB) *tlsGateway {
	t.Helper()
	g := &tlsGateway{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v2/cluster-providers/{provider}/clusters/{cluster}/monitor/report", g.pass)
	g.Server = httptest.NewUnstartedServer(mux)
	g.Config.ErrorLog = log.New(io.Discard, "", 0) // clients without the certificate hang up
	g.EnableHTTP2 = true
	g.StartTLS()
	t.Cleanup(g.Close)
	return g
}

// ca is the certificate that clusters must trust.
func (g *tlsGateway) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw})
}

// open forwards reports to an address.
func (g *tlsGateway) open(t testing.TB, address string) {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatalf("the address of emco: %v", err)
	}
	g.gate.Lock()
	defer g.gate.Unlock()
	g.to = to
}

// shut answers reports with 502, like a gateway that cannot reach its backend. When it returns, no
// report is in transit.
func (g *tlsGateway) shut() {
	g.gate.Lock()
	defer g.gate.Unlock()
	g.to, g.lost = nil, nil
}

func (g *tlsGateway) pass(w http.ResponseWriter, r *http.Request) {
	g.gate.RLock()
	defer g.gate.RUnlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "the report ended early", http.StatusBadRequest)
		return
	}
	sent := g.note(body, r.Header.Get("Content-Encoding"))
	if g.to == nil {
		g.keep(func() { g.lost = append(g.lost, sent) })
		http.Error(w, "no backend behind this gateway", http.StatusBadGateway)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	proxy := httputil.ReverseProxy{
		Rewrite:  func(p *httputil.ProxyRequest) { p.SetURL(g.to) },
		ErrorLog: g.Config.ErrorLog,
		ModifyResponse: func(res *http.Response) error {
			if res.StatusCode == http.StatusNoContent {
				g.keep(func() { g.last = sent })
			}
			return nil
		},
	}
	proxy.ServeHTTP(w, r)
}

// note records a body and decodes it.
func (g *tlsGateway) note(body []byte, coding string) forwardedReport {
	if coding == "gzip" {
		if in, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, _ = io.ReadAll(in) // emco must refuse a body that does not unpack
		}
	}
	g.keep(func() { g.said.Write(append(body, '\n')) })
	r, _ := status.Decode(body) // the same
	return forwardedReport{r, time.Now()}
}

func (g *tlsGateway) keep(what func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	what()
}

// commits are the commits in the reports that the gateway refused, of one app each.
func (g *tlsGateway) commits() (out []string) {
	g.keep(func() {
		for _, r := range g.lost {
			for _, a := range r.Apps {
				out = append(out, a.Commit)
			}
		}
	})
	return out
}
