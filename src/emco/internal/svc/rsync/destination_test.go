package rsync

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Registrations that many targets need are read together, and are the same as if each had
// been read by itself.
func TestManyRegistrationsAreReadTogether(t *testing.T) {
	t.Parallel()
	d, _, db := newDispatcherAt(t)
	put := func(key store.Key, doc any) {
		t.Helper()
		body, err := json.Marshal(doc)
		if err == nil {
			_, err = db.Create(t.Context(), store.Write{Key: key, Body: body, Parent: parentOf(key)})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(providerKey("edge"), v2.Named{})
	clusters := make([]string, many)
	for i := range clusters {
		name := fmt.Sprintf("c%03d", i)
		clusters[i] = "edge+" + name
		put(clusterKey("edge")+"/"+store.Key(name), v2.Cluster{Named: v2.Named{Metadata: v2.Metadata{Name: name}}})
	}
	for _, test := range []struct {
		name   string
		asked  int
		listed int
	}{{"a few", many - 1, 0}, {"many", many, many}} {
		trip := d.gateway.trip()
		trip.expect(t.Context(), slices.Values(clusters[:test.asked]))
		if len(trip.listed) != test.listed {
			t.Errorf("%s: %d were listed, want %d", test.name, len(trip.listed), test.listed)
		}
		alone, want, err := d.gateway.trip().cluster(t.Context(), clusters[7])
		if err != nil {
			t.Fatal(err)
		}
		c, got, err := trip.cluster(t.Context(), clusters[7])
		if err != nil || got.UID != want.UID || c.Metadata.Name != alone.Metadata.Name {
			t.Errorf("%s: got %+v, %v; want %+v", test.name, got, err, want)
		}
		if _, _, err := trip.cluster(t.Context(), "edge+nobody"); !errs.Is(err, errs.NotFound) {
			t.Errorf("%s: a cluster that is not there: got %v", test.name, err)
		}
	}
}

func parentOf(k store.Key) store.Key {
	if k == providerKey("edge") {
		return ""
	}
	return providerKey("edge")
}
