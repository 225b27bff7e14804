package githost

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

func start(t *testing.T) *Host {
	t.Helper()
	h, err := Start(t.Context(), Options{Dir: t.TempDir(), User: "flux", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	if err := h.Create(t.Context(), "fleet"); err != nil {
		t.Fatal(err)
	}
	return h
}

// A push over 1 MB is chunked; package cgi alone refuses it.
func TestWhatIsPushedCanBeCloned(t *testing.T) {
	h, work, again := start(t), t.TempDir(), filepath.Join(t.TempDir(), "again")
	big := make([]byte, 3<<20)
	_, _ = rand.Read(big)
	if err := os.WriteFile(filepath.Join(work, "big"), big, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "-q", "--initial-branch=main"},
		{"add", "."},
		{"-c", "user.name=t", "-c", "user.email=t@example.test", "commit", "-q", "-m", "one"},
		{"push", "-q", h.PushURL("fleet"), "main"},
		{"clone", "-q", h.PushURL("fleet"), again},
	} {
		if _, err := git(t.Context(), work, args...); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(again, "big")); err != nil || !bytes.Equal(got, big) {
		t.Errorf("cloned file has %d bytes, %v, want %d", len(got), err, len(big))
	}
}

func TestAStrangerIsRefused(t *testing.T) {
	h := start(t)
	resp, err := http.Get(h.URL("fleet") + "/info/refs?service=git-upload-pack")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("GET without a password: %s, want 401", resp.Status)
	}
}
