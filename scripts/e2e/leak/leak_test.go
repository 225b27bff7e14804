package leak_test

import (
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/e2e/leak"
)

// TestFinderFinds makes sure that an empty search result means something.
func TestFinderFinds(t *testing.T) {
	t.Parallel()
	secret := leak.Secret{Name: "token", Text: "K7PQ2MZNXV4RTS"}
	for name, text := range map[string]string{
		"plain":              "a line with K7PQ2MZNXV4RTS in it",
		"hex":                hex.EncodeToString([]byte("x" + secret.Text)),
		"base64":             base64.StdEncoding.EncodeToString([]byte(secret.Text + " and more")),
		"base64 after one":   base64.StdEncoding.EncodeToString([]byte("u" + secret.Text)),
		"base64 after two":   base64.StdEncoding.EncodeToString([]byte("u:" + secret.Text)),
		"base64 after three": base64.StdEncoding.EncodeToString([]byte("us:" + secret.Text)),
	} {
		f := leak.NewFinder(secret)
		f.Look("here", []byte(text))
		if found, _ := f.Found(); len(found) == 0 {
			t.Errorf("%s: found nothing in %q", name, text)
		}
		f = leak.NewFinder(secret)
		f.Look("here", []byte(text), secret)
		if found, _ := f.Found(); len(found) > 0 {
			t.Errorf("%s: found although it is allowed there: %v", name, found)
		}
	}
}

func TestFinderLooksIntoFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "file"), []byte("x K7PQ2MZNXV4RTS"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := leak.NewFinder(leak.Secret{Name: "token", Text: "K7PQ2MZNXV4RTS"})
	n, err := f.LookIn(dir)
	found, searched := f.Found()
	if err != nil || n != 1 || len(found) != 1 || searched != 16 {
		t.Errorf("LookIn: %d files, %v, found %v in %d bytes; want one leak in one file of 16 bytes", n, err, found, searched)
	}
}
