package rsync

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// register makes a cluster that pulls from Git, or one that is reached directly if it
// has no sync object.
func register(t *testing.T, db *store.DB, name, syncObject string) {
	t.Helper()
	body := `{"metadata":{"name":"` + name + `"},"spec":{"gitOps":{"gitOpsType":"git","gitOpsReferenceObject":"` + syncObject + `"}}}`
	if syncObject == "" {
		body = `{"metadata":{"name":"` + name + `"},"spec":{"gitOps":{}}}`
	}
	if _, err := db.Create(t.Context(), store.Write{Key: store.Key("cluster-providers/edge/clusters/" + name), Body: []byte(body)}); err != nil {
		t.Fatal(err)
	}
}
