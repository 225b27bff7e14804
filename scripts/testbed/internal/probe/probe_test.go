package probe

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHTTPWantsTheStatus(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	if err := HTTP(t.Context(), server.URL, http.StatusNotFound); err != nil {
		t.Errorf("HTTP with the right status: %v", err)
	}
	if err := HTTP(t.Context(), server.URL, http.StatusOK); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("HTTP with another status: %v, want the received one", err)
	}
}

func TestNobodyThereIsAnError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := TCP(t.Context(), address); err != nil {
		t.Errorf("TCP with a listener: %v", err)
	}
	l.Close()
	if TCP(t.Context(), address) == nil || HTTP(t.Context(), "http://"+address, http.StatusOK) == nil {
		t.Error("no error without a listener")
	}
}

// The server answers as gRPC servers do: a known service in a frame, an unknown one by trailers alone.
func TestGRPCWantsAServiceThatServes(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question, err := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/grpc")
		if err == nil && r.URL.Path == "/grpc.health.v1.Health/Check" && string(question) == "\x00\x00\x00\x00\x06\x0a\x04shop" {
			_, _ = w.Write([]byte{0, 0, 0, 0, 2, 8, 1})
			return
		}
		w.Header().Set("Grpc-Status", "5")
		w.Header().Set("Grpc-Message", "unknown service")
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	address := server.Listener.Addr().String()
	if err := GRPC(t.Context(), address, "shop"); err != nil {
		t.Errorf("GRPC of a service that serves: %v", err)
	}
	if err := GRPC(t.Context(), address, "till"); err == nil || !strings.Contains(err.Error(), "unknown service") {
		t.Errorf("GRPC of another service: %v, want the reason", err)
	}
}
