package changelog_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/release/changelog"
)

func fragments(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPage(t *testing.T) {
	t.Parallel()
	page, err := changelog.Page(fragments(t, map[string]string{
		"v0.9.0/a.md":     "Added: the first thing.\n",
		"v0.10.0/a.md":    "Fixed: a fault.\n",
		"unreleased/b.md": "Fixed: one more.\n\nNew: a thing.\n\nBefore, there was none. Note: now\nthere is.\n",
		"unreleased/a.md": "Changed: `x` is y ([order](../../order.md)).\n",
	}))
	want := `# Changes

<!-- Generated from docs/changelog; make gen rewrites it. -->

## Unreleased

### New

- A thing.

  Before, there was none. Note: now
  there is.

### Changed

- ` + "`x`" + ` is y ([order](docs/order.md)).

### Fixed

- One more.

## v0.10.0

### Fixed

- A fault.

## v0.9.0

### New

- The first thing.
`
	if err != nil || page != want {
		t.Errorf("%v, %s", err, page)
	}
}

func TestPageRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, text, want string }{
		"a fragment without a word": {"unreleased/a.md", "a thing happened\n", "unreleased/a.md: begin each entry"},
		"an unknown word":           {"unreleased/a.md", "Maybe: a thing\n", `"Maybe" is not`},
		"a strange folder":          {"old/a.md", "New: a\n", "old is neither"},
	} {
		if _, err := changelog.Page(fragments(t, map[string]string{c.file: c.text})); err == nil || !strings.Contains(filepath.ToSlash(err.Error()), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Every fragment of the repository can be joined.
func TestTheFragments(t *testing.T) {
	t.Parallel()
	page, err := changelog.Page("../../../docs/changelog")
	if err != nil || !strings.Contains(page, "## Unreleased") {
		t.Errorf("%v, %d bytes", err, len(page))
	}
}
