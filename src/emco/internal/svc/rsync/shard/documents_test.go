package shard

import (
	"fmt"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// Only targets whose route is read from a changed document are tried again.
func TestF05UsersOfADocument(t *testing.T) {
	t.Parallel()
	s, _, db := newShard(t, 0, inFirst)
	for name, object := range map[string]string{"c1": "one", "c2": "two", "c3": "one"} {
		body := `{"metadata":{"name":"` + name + `"},"spec":{"gitOps":{"gitOpsType":"git","gitOpsReferenceObject":"` + object + `"}}}`
		if _, err := db.Create(t.Context(), store.Write{Key: store.Key("cluster-providers/edge/clusters/" + name), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	all := func() (out []pair.Target) {
		for _, c := range []v2.ClusterKey{"edge+c1", "edge+c2", "edge+c3", "other+c1", "edge+gone"} {
			out = append(out, pair.Target{Cluster: c, Deployment: "7"})
		}
		return out
	}
	for _, tt := range []struct {
		name    string
		changes store.Changes
		want    string
	}{
		{"a sync object", store.Changes{Keys: []store.Key{"cluster-providers/edge/cluster-sync-objects/one"}}, "[{edge+c1 7} {edge+c3 7}]"},
		{"another one", store.Changes{Keys: []store.Key{"cluster-providers/edge/cluster-sync-objects/three"}}, "[]"},
		{"a registration", store.Changes{Keys: []store.Key{"cluster-providers/edge/clusters/c2"}}, "[{edge+c2 7}]"},
		{"a registration that was removed", store.Changes{Keys: []store.Key{"cluster-providers/edge/clusters/gone"}}, "[{edge+gone 7}]"},
		{"documents of other kinds", store.Changes{Keys: []store.Key{"cluster-providers/edge", "cluster-providers/edge/clusters/c1/labels/l", "projects/p"}}, "[]"},
		{"too many", store.Changes{All: true}, "[{edge+c1 7} {edge+c2 7} {edge+c3 7} {other+c1 7} {edge+gone 7}]"},
	} {
		if got := fmt.Sprint(s.usersOf(t.Context(), all(), tt.changes)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
