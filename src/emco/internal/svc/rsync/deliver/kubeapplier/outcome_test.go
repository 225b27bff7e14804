package kubeapplier_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// mixed is a bundle with three config maps; the API server refuses the second.
type mixed struct{}

func (mixed) GetBundle(context.Context, appcontext.Digest) (b appcontext.Bundle, err error) {
	for _, name := range []string{"one", "bad", "two"} {
		id := manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: name}
		b.Objects = append(b.Objects, appcontext.Ref{ID: id, Digest: appcontext.Digest(name)})
	}
	return b, nil
}

func (mixed) GetBlob(_ context.Context, d appcontext.Digest) ([]byte, error) {
	data := `{"k":"v"}`
	if d == "bad" {
		data = `{"no key":"v"}`
	}
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default"},"data":%s}`, d, data), nil
}

// A failure names the objects that were refused; the others were accepted.
func TestF02AFailureNamesTheRefusedObjects(t *testing.T) {
	t.Parallel()
	a := newApplier(t, mixed{}, noCloud)
	results := a.Deliver(t.Context(), pair.TargetOf(key), route.Route{Kubeconfig: seal.Secret(start(t).Kubeconfig())})
	if len(results) != 1 || results[0].Err == nil || results[0].Outcome == nil {
		t.Fatalf("got %+v, want one failure with an outcome", results)
	}
	if got := results[0].Outcome; got.Ended || len(got.Refused) != 1 || got.Refused[0].Name != "bad" || got.Refused[0].Reason == "" {
		t.Errorf("got %+v, want that only the second object was refused", got)
	}
}
