package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
)

func TestFilesAreReadableByTheirOwnerOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "folder")
	d := open(t, filepath.Join(dir, "docs.db"))
	if err := d.Put(t.Context(), store.Doc{Key: "a", Tag: 1}, 0); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, %v, want 0700", info.Mode(), err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("files are %q, %v, want the database, its log and its index", files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v, want 0600", f, info.Mode(), err)
		}
	}
}

// A file that others may read is closed to them when it is opened.
func TestAnOpenFileIsNarrowed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "docs.db")
	for _, mode := range []os.FileMode{0o644, 0o666} {
		if err := errors.Join(os.WriteFile(path, nil, mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		d, err := sqlite.Open(path)
		if err == nil {
			err = errors.Join(d.Put(t.Context(), store.Doc{Key: "a", Tag: 1}, 0), d.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("a file of mode %o has mode %v, %v, want 0600", mode, info.Mode(), err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAPathMayHoldAnything(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "100% a?b#c&mode=memory ü.db")
	if err := open(t, path).Put(t.Context(), store.Doc{Key: "a", Tag: 1}, 0); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("no database at %s: %v", path, err)
	}
	if _, err := open(t, path).Get(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNotOursIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	newer, foreign, text := filepath.Join(dir, "newer.db"), filepath.Join(dir, "foreign.db"), filepath.Join(dir, "text.db")
	open(t, newer)
	change(t, newer, "PRAGMA user_version = 99")
	change(t, foreign, "CREATE TABLE mine (a)")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		newer:   "has schema 99, written by a later version; this one knows up to 2",
		foreign: "is a SQLite database of another program",
		text:    "file is not a database",
	} {
		d, err := sqlite.Open(path)
		if d != nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("Open(%s) = %v, want an error with %q", filepath.Base(path), err, want)
		}
	}
}

// change runs a statement on a database as another program would.
func change(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

func TestCommitsAreSynced(t *testing.T) {
	t.Parallel()
	d := open(t, filepath.Join(t.TempDir(), "docs.db"))
	mode, sync, err := d.Durability(t.Context())
	if err != nil || mode != "wal" || sync != 2 {
		t.Errorf("journal_mode is %s, synchronous %d, %v, want wal and 2 (full)", mode, sync, err)
	}
	hasty, err := sqlite.Open(filepath.Join(t.TempDir(), "docs.db"), sqlite.WithoutFsync())
	if err != nil {
		t.Fatal(err)
	}
	defer hasty.Close()
	if mode, sync, err = hasty.Durability(t.Context()); err != nil || mode != "wal" || sync != 0 {
		t.Errorf("without fsync: journal_mode is %s, synchronous %d, %v, want wal and 0 (off)", mode, sync, err)
	}
}

// A consumer that stops half-way keeps neither writers nor the log from going on.
func TestASlowConsumerHoldsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "docs.db")
	d := open(t, path)
	for i := range 70 {
		if err := d.Put(t.Context(), store.Doc{Key: store.Key(fmt.Sprintf("a/%02d", i)), Tag: 1}, 0); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for doc, err := range d.List(t.Context(), "a", store.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n > 1 {
			continue
		}
		if err := d.Put(t.Context(), store.Doc{Key: "a/99", Tag: 1}, 0); err != nil {
			t.Fatalf("Put while listing %s: %v", doc.Key, err)
		}
		busy, err := d.Checkpoint(t.Context())
		if err != nil || busy {
			t.Errorf("the log cannot be written back while someone lists: %t, %v", busy, err)
		}
	}
	if n != 71 {
		t.Errorf("listed %d documents, want 71", n)
	}
}

func TestListingsWalkAnIndexAndSortNothing(t *testing.T) {
	t.Parallel()
	d := open(t, filepath.Join(t.TempDir(), "docs.db"))
	for _, q := range []store.Query{{}, {After: "a/b"}, {Depth: 1}, {Depth: 2, After: "a/b"}, {Refers: "t"}, {Refers: "t", After: "a/b"}} {
		for _, under := range []store.Key{"", "a"} {
			plan, err := d.Plan(t.Context(), under, q)
			if err != nil {
				t.Fatal(err)
			}
			bounded := under == "" && q == store.Query{} || strings.Contains(plan, "SEARCH")
			if strings.Contains(plan, "TEMP B-TREE") || !bounded {
				t.Errorf("List(%q, %+v) is done by %s", under, q, plan)
			}
		}
	}
}

// A damaged file is found when it is opened, and the error names the file and the way back.
func TestF65ADamagedFileIsNamed(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(text []byte) []byte{
		"overwritten": func(text []byte) []byte { return []byte(strings.Repeat("spoiled", len(text)/7)) },
		"cut":         func(text []byte) []byte { return text[:len(text)/2+100] },
		"a page in the middle": func(text []byte) []byte {
			copy(text[len(text)/2/4096*4096:], strings.Repeat("spoiled", 4096/7))
			return text
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "docs.db")
			d, err := sqlite.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 300 {
				doc := store.Doc{Key: store.Key(fmt.Sprint("a", i)), Tag: 1, Body: []byte(`"` + strings.Repeat("x", 500) + `"`)}
				if err := d.Put(t.Context(), doc, 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if d, err = sqlite.Open(path); err == nil {
				d.Close()
				t.Fatal("the file is opened")
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "is damaged") || !strings.Contains(err.Error(), "restore the data folder from a backup") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
