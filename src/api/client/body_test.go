package client_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
)

// receivedPart is what a server saw of one multipart part.
type receivedPart struct {
	name, file, kind, text string
}

func record(t *testing.T, into *[]receivedPart, length *int64) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		*length = r.ContentLength
		mr, err := r.MultipartReader()
		if err != nil {
			t.Error(err)
			return
		}
		for {
			p, err := mr.NextPart()
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			text, _ := io.ReadAll(p)
			*into = append(*into, receivedPart{p.FormName(), p.FileName(), p.Header.Get("Content-Type"), string(text)})
		}
	}
}

func TestMultipartPartsAndNames(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "app.tgz")
	big := strings.Repeat("\x1f\x8b some archive ", 100_000)
	if err := os.WriteFile(path, []byte(big), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []receivedPart
	var length int64
	c := dial(t, client.Options{BaseURL: serve(t, record(t, &got, &length))})
	body, err := client.Multipart([]byte(`{"metadata":{"name":"a"}}`), client.OneFile(path),
		client.File{Part: client.FilesPart, Name: `q"uote.txt`, Data: []byte("hello")},
		client.File{Part: client.FilesPart, Name: "empty", Data: []byte{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(t.Context(), client.Request{Method: "POST", Path: "x", Body: body}); err != nil {
		t.Fatal(err)
	}
	want := []receivedPart{
		{"metadata", "", "", `{"metadata":{"name":"a"}}`},
		{"file", "filename", "application/octet-stream", big},
		{"files", `q"uote.txt`, "text/plain; charset=utf-8", "hello"},
		{"files", "empty", "text/plain; charset=utf-8", ""},
	}
	if len(got) != len(want) || length != body.Size() {
		t.Fatalf("got %d parts in %d bytes, want %d in %d", len(got), length, len(want), body.Size())
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("part %d is %.80v, want %.80v", i, got[i], want[i])
		}
	}
}

func TestMultipartOpensTwiceWithEqualContent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, bytes.Repeat([]byte("abc"), 7000), 0o600); err != nil {
		t.Fatal(err)
	}
	body, err := client.Multipart([]byte("{}"), client.OneFile(path))
	if err != nil {
		t.Fatal(err)
	}
	var sums [2][32]byte
	for i := range sums {
		r, err := body.Open()
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(r)
		if err != nil || int64(len(all)) != body.Size() {
			t.Fatalf("read %d bytes, %v; want %d", len(all), err, body.Size())
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		sums[i] = sha256.Sum256(all)
	}
	if sums[0] != sums[1] {
		t.Error("the second reading differs from the first")
	}
}

func TestMissingAndChangingFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "none"), dir} {
		if _, err := client.Multipart(nil, client.OneFile(path)); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), path) {
			t.Errorf("Multipart(%s): %v, want Invalid that names the path", path, err)
		}
	}
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	body, err := client.Multipart(nil, client.OneFile(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("longer than first"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := dial(t, client.Options{BaseURL: serve(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })})
	if _, err := c.Do(t.Context(), client.Request{Method: "POST", Path: "x", Body: body}); !errs.Is(err, errs.Invalid) {
		t.Errorf("Do with a file that changed: %v, want Invalid", err)
	}
}
