package seal_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

func TestWhatIsSealedOpensAtItsPlaceOnly(t *testing.T) {
	t.Parallel()
	s := seal.New(seal.NewKey())
	for _, plain := range []string{"", "token", strings.Repeat("long", 1000)} {
		one, two := s.Seal([]byte(plain), "a/b", "17"), s.Seal([]byte(plain), "a/b", "17")
		if bytes.Equal(one, two) {
			t.Error("the same plain sealed twice is the same")
		}
		if plain != "" && bytes.Contains(one, []byte(plain)) {
			t.Error("the plain shows in what is sealed")
		}
		for _, sealed := range [][]byte{one, two} {
			if got, err := s.Open(t.Context(), sealed, "a/b", "17"); err != nil || string(got) != plain || got == nil {
				t.Errorf("Open of %d sealed bytes = %d bytes, %v", len(plain), len(got), err)
			}
		}
		for _, place := range [][]string{{"a/c", "17"}, {"a/b", "18"}, {"a/b1", "7"}, {"a/b"}, {"a/b", "17", ""}, {"a/b17"}, {}} {
			if got, err := s.Open(t.Context(), one, place...); err == nil || got != nil {
				t.Errorf("opens at %q: %v", place, err)
			}
		}
	}
}

func TestEveryChangedByteIsSeen(t *testing.T) {
	t.Parallel()
	s := seal.New(seal.NewKey())
	sealed := s.Seal([]byte("token"), "a")
	for i := range sealed {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1
		if got, err := s.Open(t.Context(), bad, "a"); err == nil || got != nil {
			t.Errorf("opens with byte %d changed", i)
		}
		if got, err := s.Open(t.Context(), sealed[:i], "a"); err == nil || got != nil {
			t.Errorf("opens when cut to %d bytes", i)
		}
	}
	if _, err := s.Open(t.Context(), nil, "a"); err == nil {
		t.Error("nothing opens")
	}
}

func TestAMissingKeyIsNamed(t *testing.T) {
	t.Parallel()
	lost, here := seal.NewKey(), seal.NewKey()
	sealed := seal.New(lost).Seal([]byte("token"), "a")
	_, err := seal.New(here).Open(t.Context(), sealed, "a")
	text := "the sealing key is missing: sealed with key " + lost.ID() + ", there is " + here.ID()
	if !errors.Is(err, seal.ErrNoKey) || !errs.Is(err, errs.Unavailable) || err.Error() != text {
		t.Errorf("Open = %v, want %s", err, text)
	}
	if got, err := seal.New(here, lost).Open(t.Context(), sealed, "a"); err != nil || string(got) != "token" {
		t.Errorf("Open with the older key = %d bytes, %v", len(got), err)
	}
}

func TestKeysAndSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	k, err := seal.ParseKey(" " + text + "\n")
	if err != nil {
		t.Fatal(err)
	}
	type holder struct {
		Key    seal.Key
		Secret seal.Secret
	}
	out := fmt.Sprintf("%v %+v %#v %s %x %q", k, holder{k, []byte("kkk")}, &holder{k, []byte("kkk")}, k, k, seal.Secret("kkk"))
	if strings.Contains(out, "kkk") || strings.Contains(out, "6b6b") || strings.Contains(out, "107") || strings.Contains(out, text) {
		t.Errorf("prints as %s", out)
	}
	for _, bad := range []string{"", "secret-but-no-base64!", text[:20], text + text} {
		if _, err := seal.ParseKey(bad); !errs.Is(err, errs.Invalid) || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("ParseKey = %v, want Invalid without the text", err)
		}
	}
}

func TestAKeyFileIsMadeOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	keys := make([]seal.Key, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			var err error
			if keys[i], err = seal.LoadOrCreateKey(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, k := range keys {
		if k != keys[0] || k == (seal.Key{}) {
			t.Errorf("keys differ: %v and %v", k, keys[0])
		}
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("files are %q, %v, want the key only", left, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v, %v, want mode 0600", info, err)
	}
}

func TestAKeyFileThatOthersReadIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	if _, err := seal.LoadOrCreateKey(path); err != nil {
		t.Fatal(err)
	}
	for mode, ok := range map[os.FileMode]bool{0o400: true, 0o600: true, 0o440: true, 0o640: false, 0o444: false, 0o604: false, 0o660: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := seal.LoadOrCreateKey(path); (err == nil) != ok || !ok && !errs.Is(err, errs.Invalid) {
			t.Errorf("key file of mode %v: %v, want it accepted: %t", mode, err, ok)
		}
	}
}

func TestABrokenKeyFileIsKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("half a k"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.LoadOrCreateKey(path); !errs.Is(err, errs.Invalid) {
		t.Errorf("LoadOrCreateKey = %v, want Invalid", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "half a k" {
		t.Errorf("the file was changed: %q, %v", b, err)
	}
}
