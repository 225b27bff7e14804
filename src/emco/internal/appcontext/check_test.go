package appcontext

import (
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

func TestCheckContentFindsWhatIsMissing(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	object := manifest.DigestOf([]byte("object"))
	must(t, s.PutBlobs(ctx, content("object")))
	b, err := s.PutBundle(ctx, Bundle{Objects: []Ref{{Digest: object}}})
	must(t, err)
	_, err = s.Publish(ctx, create(t, s, "1"), Revision{Number: 1, Apps: []App{{Name: "a", Bundles: []Digest{b}}}}, slices.Values(places(3, b)))
	must(t, err)
	must(t, s.PutPairs(ctx, Fence{}, []Pair{{Key: PairKey{Cluster: "p+a", Deployment: "1", App: "a"}, Desired: b}}, nil))
	faults := func() string {
		t.Helper()
		found, err := uncached(s).CheckContent(ctx)
		must(t, err)
		var out []string
		for _, f := range found {
			out = append(out, f.Subject+": "+f.Reason)
		}
		return strings.Join(out, "\n")
	}
	if got := faults(); got != "" {
		t.Errorf("a whole store: %s", got)
	}
	must(t, s.PutPairs(ctx, Fence{}, []Pair{{Key: PairKey{Cluster: "p+a", Deployment: "gone", App: "a"}, Desired: b}}, nil))
	if got := faults(); got != "deployment gone: 1 apps on clusters belong to no head, so nothing will remove them: restore the AppContext from a backup, or remove their objects yourself" {
		t.Errorf("pairs without a head: %s", got)
	}
	_, err = etcd.Delete(ctx, s.kv.Key("blob", string(object), "0000"))
	must(t, err)
	if got := faults(); !strings.Contains(got, "content "+string(object)+": revision 1 of") || !strings.Contains(got, "and it is missing: restore the AppContext from a backup") {
		t.Errorf("missing content: %s", got)
	}
	_, err = etcd.Put(ctx, s.kv.Key("blob", string(b), "0000"), "spoiled")
	must(t, err)
	_, err = etcd.Delete(ctx, revisionKey(s.kv, "1", 1))
	must(t, err)
	if got := faults(); !strings.Contains(got, "content "+string(b)) || !strings.Contains(got, "the desired revision 1 is missing") {
		t.Errorf("a spoiled bundle and a missing revision: %s", got)
	}
}
