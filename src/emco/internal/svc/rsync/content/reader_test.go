package content

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

// counter counts the bundles that are read from a shelf.
type counter struct {
	shelf
	read int
}

func (c *counter) GetBundle(ctx context.Context, d appcontext.Digest) (appcontext.Bundle, error) {
	c.read++
	return c.shelf.GetBundle(ctx, d)
}

func TestBundlesAreReadOnceWhileTheyAreInUse(t *testing.T) {
	t.Parallel()
	s := &counter{shelf: shelf{}}
	c := NewReader(s)
	get := func(d appcontext.Digest) {
		t.Helper()
		if a, err := c.SettledApp(t.Context(), d); err != nil || len(a.Objects) != 1 || a.Objects[0].ID.Name != string(d) {
			t.Fatalf("%s: got %+v, %v", d, a, err)
		}
	}
	for i := range 4 * generationSize {
		s.put(appcontext.Digest(fmt.Sprint("b", i)), fmt.Sprint("b", i))
	}
	for i := range 4 * generationSize { // b0 is asked for between all others
		get(appcontext.Digest(fmt.Sprint("b", i)))
		get("b0")
	}
	if want := 4 * generationSize; s.read != want {
		t.Errorf("%d bundles were read, want %d", s.read, want)
	}
	if len(c.young)+len(c.old) > 2*generationSize {
		t.Errorf("%d bundles are remembered", len(c.young)+len(c.old))
	}
	get("b1")
	if want := 4*generationSize + 1; s.read != want {
		t.Errorf("%d bundles were read, want %d: b1 must be dropped", s.read, want)
	}
}

// Large apps are bounded by their bytes: a hundred versions of one app are not kept.
func TestF68LargeAppsAreNotAllKept(t *testing.T) {
	t.Parallel()
	s := shelf{}
	c := NewReader(s)
	for i := range 100 {
		d := appcontext.Digest(fmt.Sprint("b", i))
		s.put(d, string(d))
		a, err := c.SettledApp(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		a.Objects[0].Content = make([]byte, 3<<20)
		c.put(d+"-large", a, sizeOfApp(a))
	}
	kept := 0
	for _, generation := range []map[appcontext.Digest]sized[syncer.App]{c.young, c.old} {
		for _, a := range generation {
			kept += a.bytes
		}
	}
	if kept < generationBytes || kept > 2*generationBytes {
		t.Errorf("%d MiB are kept", kept>>20)
	}
}

// lost is a store without blobs.
type lost struct{ shelf }

func (lost) GetBlob(context.Context, appcontext.Digest) ([]byte, error) {
	return nil, errs.New(errs.NotFound, "no such blob")
}

func TestMissingContentIsNamed(t *testing.T) {
	t.Parallel()
	s := shelf{}
	s.put("b", "settings")
	_, err := (&Reader{store: lost{s}}).SettledApp(t.Context(), "b")
	if !errs.Is(err, errs.NotFound) || !strings.Contains(err.Error(), "ConfigMap settings") {
		t.Errorf("got %v", err)
	}
	if _, err := NewReader(s).SettledApp(t.Context(), "other"); err == nil {
		t.Error("a missing bundle was read")
	}
}

func TestIDsComeOnceAndWithoutDefinitions(t *testing.T) {
	t.Parallel()
	id := func(name string) manifest.ID { return manifest.ID{Kind: "ConfigMap", Name: name} }
	s := shelf{
		"a": {Objects: []appcontext.Ref{{ID: id("one")}, {ID: id("two")}}, CRDs: []appcontext.Ref{{ID: id("definition")}}},
		"b": {Objects: []appcontext.Ref{{ID: id("two")}, {ID: id("three")}}},
	}
	ids, err := NewReader(s).IDs(t.Context(), []appcontext.Digest{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range ids {
		names = append(names, i.Name)
	}
	if got := strings.Join(names, " "); got != "one two three" {
		t.Errorf("got %s", got)
	}
	if _, err := NewReader(s).IDs(t.Context(), []appcontext.Digest{"a", "c"}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// shelf keeps bundles of one object each; it stands for the AppContext.
type shelf map[appcontext.Digest]appcontext.Bundle

func (s shelf) GetBundle(_ context.Context, d appcontext.Digest) (appcontext.Bundle, error) {
	b, ok := s[d]
	if !ok {
		return b, errors.New("no bundle " + string(d))
	}
	return b, nil
}

func (s shelf) GetBlob(_ context.Context, d appcontext.Digest) ([]byte, error) {
	return json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": string(d), "namespace": "default"}})
}

// put shelves a bundle with one config map.
func (s shelf) put(d appcontext.Digest, name string) {
	id := manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: name}
	s[d] = appcontext.Bundle{Objects: []appcontext.Ref{{ID: id, Digest: appcontext.Digest(name)}}}
}
