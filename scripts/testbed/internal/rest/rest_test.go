package rest

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func serve(t *testing.T, code int, body string) *Client {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key" {
			code = http.StatusUnauthorized
		}
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	c, err := New(s.URL, "key", ca)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestGetDecodesTheAnswer(t *testing.T) {
	var out struct{ Kind string }
	if err := serve(t, 200, `{"kind":"Node"}`).Get(t.Context(), "/x", &out); err != nil || out.Kind != "Node" {
		t.Errorf("Get: %+v, %v", out, err)
	}
}

func TestRefusalsSayWhatWasAskedAndAnswered(t *testing.T) {
	err := serve(t, 403, "not you").Get(t.Context(), "/x", nil)
	for _, want := range []string{"GET /x", "403", "not you"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Get: %v, want %q in it", err, want)
		}
	}
}

func TestCreatingWhatExistsIsFine(t *testing.T) {
	if err := serve(t, 409, "").Post(t.Context(), "/x", nil); err != nil {
		t.Errorf("Post: %v", err)
	}
	if err := serve(t, 500, "").Post(t.Context(), "/x", nil); err == nil {
		t.Error("Post to a broken server: no error")
	}
}

func TestANonsensicalAuthorityIsRefused(t *testing.T) {
	if _, err := New("https://h", "key", []byte("x")); err == nil {
		t.Error("New: no error")
	}
}
