package revision_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// A revision knows what it puts on clusters: of what it rendered, of what it took over from the revision
// before, and of failed apps, which keep what runs. Revisions of older versions have no sizes.
func TestRevisionsKnowWhatTheyUse(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	head := s.mustPublish(s.wait(appcontext.Head{}, 1), s.app("web", sound, "p+a", "p+b"), s.app("db", sound, "p+b"))
	rev, web := s.revision(1), s.placed(1)["p+a web"]
	bundle, err := s.Contexts.GetBundle(t.Context(), web)
	if err != nil {
		t.Fatal(err)
	}
	content, err := s.Contexts.GetBlob(t.Context(), bundle.Objects[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(len(content))
	want := appcontext.Use{Clusters: 2, Objects: 3, Bytes: 3 * size} // both apps render the same object
	if head.Use != want || rev.Apps[0].Sizes[0] != (appcontext.BundleSize{Objects: 1, Bytes: size}) {
		t.Errorf("the first revision uses %+v and has sizes %+v; want %+v", head.Use, rev.Apps[0].Sizes, want)
	}
	again := s.mustPublish(s.wait(head, 2), s.app("web", sound, "p+a", "p+b"), s.app("db", nameless, "p+b"))
	if again.Use != want {
		t.Errorf("with an app that fails and stays, it uses %+v, want %+v", again.Use, want)
	}
	fewer := s.mustPublish(s.wait(again, 3), s.app("web", sound, "p+a"))
	if want := (appcontext.Use{Clusters: 1, Objects: 1, Bytes: size}); fewer.Use != want {
		t.Errorf("with fewer apps and clusters it uses %+v, want %+v", fewer.Use, want)
	}
	old := s.revision(3)
	old.Number, old.Apps[0].Sizes = 4, nil
	places, err := s.Contexts.Placements(t.Context(), "7", 3)
	if err != nil {
		t.Fatal(err)
	}
	waiting := s.wait(fewer, 4)
	waiting.Use = appcontext.Use{}
	older, err := s.Contexts.Publish(t.Context(), waiting, old, func(yield func(appcontext.Placement) bool) {
		for _, p := range places {
			if !yield(p) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	next := s.mustPublish(s.wait(older, 5), s.app("web", sound, "p+a", "p+b"))
	if want := (appcontext.Use{Clusters: 2, Objects: 2, Bytes: 2 * size}); next.Use != want {
		t.Errorf("after a revision without sizes it uses %+v, want %+v", next.Use, want)
	}
}
