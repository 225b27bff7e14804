package e2e

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// peerNetwork is the network between members of etcd: each request goes through the link from its sender to its receiver.
type peerNetwork struct {
	links [][]*proxy // by sender, to each receiver; that from a member to itself carries what names no sender
}

// newPeerNetwork returns the network of members that listen at these URLs, and the URLs by which they reach each other.
func newPeerNetwork(t testing.TB, listen []string) (n peerNetwork, advertised []string) {
	t.Helper()
	for range listen {
		var links []*proxy
		for _, to := range listen {
			links = append(links, newProxy(t, strings.TrimPrefix(to, "http://")))
		}
		n.links = append(n.links, links)
	}
	for to := range listen {
		ways := make([]http.Handler, len(listen))
		for from := range listen {
			ways[from] = &httputil.ReverseProxy{
				Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: n.links[from][to].address()}) },
				Transport:     &http.Transport{}, // connections of its own
				FlushInterval: -1,                // messages are streams
				ErrorLog:      log.New(io.Discard, "", 0),
				ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
			}
		}
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			from := slices.Index(advertised, r.Header.Get("X-PeerURLs")) // of the sender
			if from < 0 {
				from = to
			}
			ways[from].ServeHTTP(w, r)
		}))
		t.Cleanup(func() {
			front.CloseClientConnections()
			front.Close()
		})
		advertised = append(advertised, front.URL)
	}
	return n, advertised
}

// cut cuts members off from each other, in both directions.
func (n peerNetwork) cut(a, b int, silent bool) {
	n.links[a][b].cut(silent)
	n.links[b][a].cut(silent)
}

// heal ends all cuts.
func (n peerNetwork) heal() {
	for _, links := range n.links {
		for _, link := range links {
			link.heal()
		}
	}
}
