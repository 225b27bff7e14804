package probe

import (
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
