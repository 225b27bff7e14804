package revision_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/patch"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
)

func manyClusters(n int) (out []v2.ClusterKey) {
	for i := range n {
		out = append(out, v2.NewClusterKey("p", fmt.Sprintf("c%04d", i)))
	}
	return out
}

// fifth returns every fifth cluster, beginning with the n-th.
func fifth(all []v2.ClusterKey, n int) (out []v2.ClusterKey) {
	for i := n; i < len(all); i += 5 {
		out = append(out, all[i])
	}
	return out
}

func patchEdit(app, value string, clusters []v2.ClusterKey) customize.Edit {
	return customize.Edit{App: app, Clusters: clusters, Origin: "customizations/" + value, Patch: &customize.Patch{
		Target: customize.Target{Kind: "ConfigMap", Name: "r1"}, Type: patch.Merge, Text: fmt.Appendf(nil, `{"data":{"size":%q}}`, value),
	}}
}

// A thousand clusters in five classes of values are rendered five times; in five classes of
// patches, once. What did not change is not made a second time.
func TestEqualCustomizationsShareARendering(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	counting := &rendertest.Recorder{}
	s.Renderer = counting
	all := manyClusters(1000)
	values, patched := s.app("values", sound, all...), s.app("patched", sound, all...)
	values.Decision.Clusters = all
	for n := range 5 {
		size := fmt.Sprint("size-", n)
		values.Edits = append(values.Edits, customize.Edit{App: "values", Clusters: fifth(all, n), Values: []render.Override{{Key: "size", Value: size}}})
		patched.Edits = append(patched.Edits, patchEdit("patched", size, fifth(all, n)))
	}
	head := s.mustPublish(s.wait(appcontext.Head{}, 1), values, patched)
	if got, want := counting.Taken(), "[] [{size size-0}] [{size size-1}] [{size size-2}] [{size size-3}] [{size size-4}]"; got != want {
		t.Errorf("renderings: got %s, want %s", got, want)
	}
	rev := s.revision(1)
	if len(rev.Apps[0].Bundles) != 5 || len(rev.Apps[1].Bundles) != 5 || len(rev.Apps[1].Classes) != 5 {
		t.Errorf("the revision has %+v", rev.Apps)
	}
	placed := s.placed(1)
	bundles := map[appcontext.Digest]int{}
	for _, c := range all {
		bundles[placed[string(c)+" patched"]]++
	}
	for _, c := range fifth(all, 3) {
		if got := s.contents(placed[string(c)+" patched"]); !strings.Contains(got, `"size":"size-3"`) {
			t.Fatalf("%s holds %s", c, got)
		}
	}
	if len(bundles) != 5 || len(placed) != 2000 {
		t.Errorf("%d clusters share %d bundles", len(placed), len(bundles))
	}

	head = s.mustPublish(s.wait(head, 2), values, patched)
	if got, want := counting.Taken(), ""; got != want {
		t.Errorf("renderings of the same: got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(s.placed(2)), fmt.Sprint(placed); got != want {
		t.Errorf("placements of the same: got %s, want %s", got, want)
	}

	patched.Edits[2] = patchEdit("patched", "new", fifth(all, 2))
	s.mustPublish(s.wait(head, 3), values, patched)
	if got, want := counting.Taken(), "[]"; got != want {
		t.Errorf("renderings after a change of one patch: got %s, want %s", got, want)
	}
	after := s.placed(3)
	for _, c := range all {
		if k := string(c) + " patched"; (after[k] != placed[k]) != slices.Contains(fifth(all, 2), c) {
			t.Fatalf("%s: the bundle is %s, and was %s", c, after[k], placed[k])
		}
	}
}

// contents returns the objects of a bundle.
func (s fixture) contents(d appcontext.Digest) string {
	s.Helper()
	b, err := s.Contexts.GetBundle(s.Context(), d)
	if err != nil {
		s.Fatal(err)
	}
	var out strings.Builder
	for _, o := range b.Objects {
		text, err := s.Contexts.GetBlob(s.Context(), o.Digest)
		if err != nil {
			s.Fatal(err)
		}
		out.Write(text)
	}
	return out.String()
}

// A patch that does not fit fails its app, which stays as it is; the other apps go on.
func TestAPatchThatDoesNotFitFailsItsApp(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	web, db := s.app("web", sound, "p+a", "p+b"), s.app("db", sound, "p+a")
	head := s.mustPublish(s.wait(appcontext.Head{}, 1), web, db)
	before := s.placed(1)
	bad := patchEdit("web", "x", []v2.ClusterKey{"p+b"})
	bad.Patch.Type, bad.Patch.Text = patch.JSON, []byte(`[{"op":"remove","path":"/data/none"}]`)
	web.Edits = []customize.Edit{bad, patchEdit("web", "y", []v2.ClusterKey{"p+a"})}
	db.Edits = []customize.Edit{patchEdit("db", "z", nil)}
	s.mustPublish(s.wait(head, 2), web, db)
	rev := s.revision(2)
	f := rev.Apps[0].Failure
	if f == nil || f.File != "customizations/x" || !strings.Contains(f.Reason, "json patch: ") || !strings.Contains(f.Reason, "(on p+b and clusters like it)") {
		t.Errorf("the failure is %+v", f)
	}
	after := s.placed(2)
	if after["p+a web"] != before["p+a web"] || after["p+b web"] != before["p+b web"] || after["p+a db"] == before["p+a db"] || rev.Apps[1].Failure != nil {
		t.Errorf("placed %v, before %v", after, before)
	}
}
