package pack

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"pgregory.net/rapid"
)

// For any two files, the delta makes one out of the other when an independent reader applies
// it.
func TestDeltasRebuildTheirTarget(t *testing.T) {
	t.Parallel()
	line := rapid.SampledFrom([]string{"a: 1\n", "a: 2\n", "  b\n", "\n", "a: 1", "x", strings.Repeat("long", 40) + "\n"})
	lines := rapid.Custom(func(t *rapid.T) []byte {
		return []byte(strings.Join(rapid.SliceOfN(line, 1, 30).Draw(t, "lines"), ""))
	})
	rapid.Check(t, func(t *rapid.T) {
		f := &family{base: Object{Content: lines.Draw(t, "base")}}
		f.index()
		want := lines.Draw(t, "text")
		got, err := packfile.PatchDelta(f.base.Content, f.encode(want))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("base %q: the delta to %q makes %q, %v", f.base.Content, want, got, err)
		}
	})
}

// manifest is a file that names its cluster in some places.
func manifest(cluster int, app string) []byte {
	text := fmt.Sprintf("kind: ConfigMap\nmetadata:\n  name: %s\n  labels: {cluster: c%05d}\ndata:\n", app, cluster)
	for i := range 30 {
		text += fmt.Sprintf("  key-%d: a value of %s that is the same on all clusters\n", i, app)
	}
	return fmt.Appendf([]byte(text), "  address: https://c%05d.example.org/\n", cluster)
}

// A pack of files that are alike is a tenth of what they take by themselves, and git reads
// it and finds nothing wrong with it.
func TestAPackOfLikesIsSmall(t *testing.T) {
	t.Parallel()
	var objs, strangers []Object
	for c := range 200 {
		for _, app := range []string{"web", "db"} {
			o := NewObject(plumbing.BlobObject, manifest(c, app))
			strangers = append(strangers, o)
			o.Path = fmt.Sprintf("clusters/c%d/app/%s/settings.yaml", c, app)
			objs = append(objs, o)
		}
	}
	repo := t.TempDir()
	git := func(in []byte, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", repo}, args...)...)
		cmd.Stdin = bytes.NewReader(in)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	git(nil, "init", "-q", "--bare")
	var pack, alone bytes.Buffer
	if err := Write(&pack, objs); err != nil {
		t.Fatal(err)
	}
	if err := Write(&alone, strangers); err != nil {
		t.Fatal(err)
	}
	if pack.Len() > alone.Len()/3 {
		t.Errorf("the pack is %d bytes large, that without deltas %d; want a third of it at most", pack.Len(), alone.Len())
	}
	git(pack.Bytes(), "index-pack", "--stdin", "--strict")
	for _, o := range []Object{objs[0], objs[7], objs[399]} {
		if got := git(nil, "cat-file", "blob", o.ID.String()); got != string(o.Content) {
			t.Errorf("%s is %q, want %q", o.Path, got, o.Content)
		}
	}
}
