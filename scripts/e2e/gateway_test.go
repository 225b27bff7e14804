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

// gateway ends TLS before emco. It lets reports of clusters through and nothing else, as
// docs/monitor.md asks for, and remembers them.
type gateway struct {
	*httptest.Server
	gate sync.RWMutex // held for reading while a report is on its way
	to   *url.URL     // emco, which has another address after each start; nil while reports do not get through

	mu   sync.Mutex
	said bytes.Buffer // all reports, unpacked
	last report       // that was answered with 204
	lost []report     // that did not get through, since the gate was shut
}

// report is one that came by, and when it was sent on.
type report struct {
	status.Report
	at time.Time
}

func newGateway(t testing.TB) *gateway {
	t.Helper()
	g := &gateway{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v2/cluster-providers/{provider}/clusters/{cluster}/monitor/report", g.pass)
	g.Server = httptest.NewUnstartedServer(mux)
	g.Config.ErrorLog = log.New(io.Discard, "", 0) // those who do not trust it hang up
	g.EnableHTTP2 = true
	g.StartTLS()
	t.Cleanup(g.Close)
	return g
}

// ca is what clusters have to trust.
func (g *gateway) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw})
}

// open lets reports through to an address.
func (g *gateway) open(t testing.TB, address string) {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatalf("the address of emco: %v", err)
	}
	g.gate.Lock()
	defer g.gate.Unlock()
	g.to = to
}

// shut answers reports with 502, as a gateway does that does not reach who is behind it.
// When it returns, none is under way.
func (g *gateway) shut() {
	g.gate.Lock()
	defer g.gate.Unlock()
	g.to, g.lost = nil, nil
}

func (g *gateway) pass(w http.ResponseWriter, r *http.Request) {
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
		http.Error(w, "nobody is behind this gateway", http.StatusBadGateway)
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

// note keeps what a body says, and reads it.
func (g *gateway) note(body []byte, coding string) report {
	if coding == "gzip" {
		if in, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, _ = io.ReadAll(in) // what does not unpack is for emco to refuse
		}
	}
	g.keep(func() { g.said.Write(append(body, '\n')) })
	r, _ := status.Decode(body) // likewise
	return report{r, time.Now()}
}

func (g *gateway) keep(what func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	what()
}

// commits are those that reports named which did not get through, of one app each.
func (g *gateway) commits() (out []string) {
	g.keep(func() {
		for _, r := range g.lost {
			for _, a := range r.Apps {
				out = append(out, a.Commit)
			}
		}
	})
	return out
}
