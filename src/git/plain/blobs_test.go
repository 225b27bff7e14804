package plain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

var _ git.BlobsReader = (*plain.Host)(nil)

// Files are read together; the ones that are too large, or not there, are left out.
func TestBlobsAreReadTogether(t *testing.T) {
	t.Parallel()
	for _, byName := range []string{"true", "false"} {
		t.Run("allowAnySHA1InWant="+byName, func(t *testing.T) {
			t.Parallel()
			bare, repo := serve(t, "http")
			if err := bare.Config(t.Context(), "uploadpack.allowAnySHA1InWant", byName); err != nil {
				t.Fatal(err)
			}
			files := map[string]gittest.File{"large": {Content: strings.Repeat("x", 2<<20)}}
			for i := range 40 {
				files[fmt.Sprintf("f%02d", i)] = gittest.File{Content: fmt.Sprint("content ", i)}
			}
			at := foreign(t, t.Context(), bare, "main", files)
			host := newHost(t)
			ids, paths := []git.Hash{git.Hash(strings.Repeat("1", 40))}, map[git.Hash]string{}
			for e, err := range host.Tree(t.Context(), repo, at, "") {
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, e.ID)
				paths[e.ID] = e.Path
			}
			before := host.Stats().Received
			got, err := host.Blobs(t.Context(), repo, ids, 1<<20)
			if err != nil || len(got) != 40 {
				t.Fatalf("%d files, %v, want the 40 small ones", len(got), err)
			}
			for id, content := range got {
				if want := files[paths[id]].Content; string(content) != want {
					t.Errorf("%s holds %q, want %q", paths[id], content, want)
				}
			}
			if n := host.Stats().Received - before; n > 1<<20 {
				t.Errorf("%d bytes were received", n)
			}
		})
	}
}
