package client_test

import (
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
)

func TestPartsArriveApart(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v2/missing":
			http.Error(w, "no such document", http.StatusNotFound)
			return
		case "/v2/plain":
			_, _ = w.Write([]byte("{}"))
			return
		case "/v2/large":
			_, _ = w.Write(make([]byte, 1001))
			return
		case "/v2/broken":
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("{"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		parts := multipart.NewWriter(w)
		w.Header().Set("Content-Type", parts.FormDataContentType())
		for i := range 2 {
			part, _ := parts.CreateFormFile("files", fmt.Sprintf("f%d", i))
			fmt.Fprintf(part, "text %d", i)
		}
		if r.URL.Path == "/v2/cut" {
			panic(http.ErrAbortHandler)
		}
		if r.URL.Path == "/v2/short" { // a gateway ended the answer as if it were whole
			return
		}
		_ = parts.Close()
	}))
	t.Cleanup(s.Close)
	c, err := client.New(client.Options{BaseURL: s.URL, MaxBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) (parts []string, res *client.Response, err error) {
		res, err = c.Parts(t.Context(), client.Request{Method: http.MethodGet, Path: path}, func(p *multipart.Part) error {
			text, err := io.ReadAll(p)
			parts = append(parts, p.FileName()+" "+string(text))
			return err
		})
		return parts, res, err
	}
	if parts, _, err := read("whole"); err != nil || !slices.Equal(parts, []string{"f0 text 0", "f1 text 1"}) {
		t.Errorf("the parts are %q, %v", parts, err)
	}
	for _, path := range []string{"cut", "short"} {
		if parts, _, err := read(path); !errs.Is(err, errs.Unavailable) {
			t.Errorf("an answer that breaks off (%s): %q, %v, want Unavailable", path, parts, err)
		}
	}
	if parts, res, err := read("plain"); err != nil || len(parts) > 0 || string(res.Body) != "{}" {
		t.Errorf("an answer without parts: %q, %v", parts, err)
	}
	for path, want := range map[string]errs.Kind{"large": errs.TooLarge, "broken": errs.Unavailable} {
		r := client.Request{Method: http.MethodGet, Path: path}
		if _, _, err := read(path); !errs.Is(err, want) {
			t.Errorf("parts: an answer without parts that is %s: %v, want %s", path, err, want)
		}
		if _, err := c.Lines(t.Context(), r, func([]byte) error { return nil }); !errs.Is(err, want) {
			t.Errorf("lines: an answer that is no stream and %s: %v, want %s", path, err, want)
		}
	}
	if _, res, err := read("missing"); err != nil || !errs.Is(res.Err(http.MethodGet, "missing"), errs.NotFound) {
		t.Errorf("a refusal: %+v, %v", res, err)
	}
}
