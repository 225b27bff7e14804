package httpvalue_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/httpvalue"
)

func TestValuesAreReadWhereTheyAreAllowed(t *testing.T) {
	t.Parallel()
	asked := 0
	mux := http.NewServeMux()
	mux.HandleFunc("/kv/", func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.URL.Path {
		case "/kv/number":
			_, _ = w.Write([]byte(`{"value":5,"other":1}` + "\n"))
		case "/kv/away":
			http.Redirect(w, r, "/kv/number", http.StatusFound)
		case "/kv/none":
			http.NotFound(w, r)
		case "/kv/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/kv/long":
			_, _ = w.Write([]byte(`{"value":"` + strings.Repeat("x", 70_000) + `"}`))
		default:
			_, _ = w.Write([]byte(`[]`))
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	r, err := httpvalue.New([]string{server.URL + "/kv/"}, outbound.Policy{}.Check)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Value(t.Context(), server.URL+"/kv/number?key=n"); err != nil || string(got) != "5" {
		t.Errorf("Value = %s, %v", got, err)
	}
	for path, want := range map[string]struct {
		kind errs.Kind
		text string
	}{
		"/kv/away": {errs.Invalid, "302"},
		"/kv/none": {errs.Invalid, "404"},
		"/kv/busy": {errs.Unavailable, "503"},
		"/kv/long": {errs.Invalid, "more than 65536 bytes"},
		"/kv/list": {errs.Invalid, `no JSON object with a member "value"`},
	} {
		if _, err := r.Value(t.Context(), server.URL+path); !errs.Is(err, want.kind) || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: %v, want %v with %q", path, err, want.kind, want.text)
		}
	}
	before := asked
	for _, url := range []string{
		server.URL + "/other", server.URL + "/kv", server.URL + "/kv/../other", server.URL + "/kv/%2e%2e/other",
		strings.Replace(server.URL, "http://", "https://", 1) + "/kv/number", strings.Replace(server.URL, "http://", "http://u:p@", 1) + "/kv/number",
		"http://example.org/kv/number", "ftp://example.org/", "http:///kv/number", "",
	} {
		if _, err := r.Value(t.Context(), url); !errs.Is(err, errs.Forbidden) && !errs.Is(err, errs.Invalid) {
			t.Errorf("%q: %v, want it to be refused", url, err)
		}
	}
	if asked != before {
		t.Error("a URL that is not allowed was asked")
	}
	private, err := httpvalue.New([]string{server.URL + "/kv/"}, outbound.Policy{DenyPrivate: true}.Check)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := private.Value(t.Context(), server.URL+"/kv/number"); err == nil || asked != before {
		t.Errorf("a private address: %v", err)
	}
}

func TestPrefixesAreURLsOfFolders(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "http://example.org", "http://example.org/kv", "example.org/", "file:///etc/", "http://u:p@example.org/"} {
		if _, err := httpvalue.New([]string{prefix}, outbound.Policy{}.Check); !errs.Is(err, errs.Invalid) {
			t.Errorf("%q: %v, want Invalid", prefix, err)
		}
	}
}

// FuzzValue looks for URLs that pass the prefix and lead elsewhere, and for answers that are no values.
func FuzzValue(f *testing.F) {
	for _, suffix := range []string{"number", "../other", "%2e%2e/other", "a?b=c#d", "//elsewhere", "\\..\\other", ";/../x"} {
		f.Add(suffix, `{"value":5}`)
	}
	for _, body := range []string{`{"value":null}`, `{"value":{"a":[1]}}`, `[]`, `{"value":`, `{"Value":1,"value":2}`, ``, `{"value":"\ud800"}`} {
		f.Add("number", body)
	}
	var mu sync.Mutex
	answer, elsewhere := "", ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if clean := path.Clean(r.URL.Path); clean != "/kv" && !strings.HasPrefix(clean, "/kv/") {
			elsewhere = r.RequestURI
		}
		_, _ = io.WriteString(w, answer)
	}))
	f.Cleanup(server.Close)
	r, err := httpvalue.New([]string{server.URL + "/kv/"}, outbound.Policy{}.Check)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, suffix, body string) {
		mu.Lock()
		answer, elsewhere = body, ""
		mu.Unlock()
		got, err := r.Value(t.Context(), server.URL+"/kv/"+suffix)
		mu.Lock()
		defer mu.Unlock()
		if elsewhere != "" {
			t.Errorf("%q asks for %s", suffix, elsewhere)
		}
		if err != nil && errs.Is(err, errs.Internal) {
			t.Errorf("%q, %q: %v", suffix, body, err)
		}
		if err == nil && !json.Valid(got) {
			t.Errorf("%q makes %q, which is no JSON", body, got)
		}
	})
}
