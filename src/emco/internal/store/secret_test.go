package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

const planted = "planted-token"

func TestSecretsAreSealedOnTheDiskAndBoundToTheirDocument(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	raw := openDriver(t, filepath.Join(dir, "docs.db"))
	db := store.New(raw, nil, seal.New(seal.NewKey()))
	docs := create(t, db,
		store.Write{Key: provider, Secret: []byte(planted)},
		store.Write{Key: syncRepo, Parent: provider, Secret: []byte(planted)},
		store.Write{Key: cluster, Parent: provider})
	if bytes.Equal(docs[0].Secret, docs[1].Secret) {
		t.Error("equal secrets are equal when sealed")
	}
	for _, d := range docs[:2] {
		if got, err := db.Reveal(t.Context(), d); err != nil || string(got) != planted {
			t.Errorf("Reveal(%s) does not return the secret, %v", d.Key, err)
		}
	}
	if got, err := db.Reveal(t.Context(), docs[2]); err != nil || got != nil {
		t.Errorf("Reveal without a secret = %d bytes, %v, want none", len(got), err)
	}
	docs[1].Secret = docs[0].Secret
	if got, err := db.Reveal(t.Context(), docs[1]); err == nil || got != nil {
		t.Errorf("Reveal of another document's secret = %d bytes, %v, want an error", len(got), err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("files are %q, %v, want the database and its log", files, err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err != nil || bytes.Contains(b, []byte(planted)) {
			t.Errorf("%s can be read: %t, and holds the secret in clear", f, err == nil)
		}
	}
}

func TestAReplacementDropsTheSecretItDoesNotRepeat(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	create(t, db, store.Write{Key: provider, Secret: []byte(planted)})
	if d, err := db.Replace(t.Context(), store.Write{Key: provider}, 0); err != nil || d.Secret != nil {
		t.Errorf("replaced without a secret there are %d bytes of it, %v", len(d.Secret), err)
	}
}

func TestAMissingSealingKeyIsSeenAtTheStart(t *testing.T) {
	t.Parallel()
	raw := openDriver(t, filepath.Join(t.TempDir(), "docs.db"))
	first, second := seal.NewKey(), seal.NewKey()
	create(t, store.New(raw, nil, seal.New(first)), store.Write{Key: provider, Secret: []byte(planted)})

	err := store.New(raw, nil, seal.New(second)).Settle(t.Context())
	if !errs.Is(err, errs.Unavailable) || !errors.Is(err, seal.ErrNoKey) ||
		!strings.Contains(fmt.Sprint(err), first.ID()) || !strings.Contains(fmt.Sprint(err), string(provider)) {
		t.Errorf("Settle with another key = %v, want Unavailable naming key %s and the document", err, first.ID())
	}
	rotated := store.New(raw, nil, seal.New(second, first))
	if err := rotated.Settle(t.Context()); err != nil {
		t.Errorf("Settle with the key among the older ones = %v, want nil", err)
	}
	d, err := rotated.Get(t.Context(), provider)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := rotated.Reveal(t.Context(), d); err != nil || string(got) != planted {
		t.Errorf("Reveal with an older key does not return the secret: %v", err)
	}
}

func TestAWriteDoesNotPrintItsSecret(t *testing.T) {
	t.Parallel()
	w := store.Write{Key: provider, Secret: []byte(planted)}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("write", "write", w, "secret", w.Secret)
	inJSON, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{fmt.Sprintf("%v %+v %#v %s %x %q %d", w, w, w, w.Secret, w.Secret, w.Secret, w.Secret), log.String(), string(inJSON)} {
		for _, form := range []string{planted, fmt.Sprintf("%x", planted), fmt.Sprint([]byte(planted)), "cGxhbnRlZC10b2tlb"} {
			if strings.Contains(out, form) {
				t.Errorf("the secret shows in %s", out)
			}
		}
	}
}
