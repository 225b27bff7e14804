package rsync

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

var retry = pair.Retry{First: time.Second, Longest: 5 * time.Minute}

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

// change writes a change of a head.
func change(t *testing.T, contexts *appcontext.Store, head appcontext.Head, how func(*appcontext.Head)) appcontext.Head {
	t.Helper()
	to := head
	how(&to)
	next, err := contexts.Step(t.Context(), head, to, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// publish makes the next revision of deployment 7, with the app "web" on clusters.
func publish(t *testing.T, contexts *appcontext.Store, head appcontext.Head, clusters ...string) appcontext.Head {
	t.Helper()
	to := head
	to.UID, to.Subject, to.LastRev = "7", "the group", head.LastRev+1
	to, err := contexts.Step(t.Context(), head, to, nil, &appcontext.Operation{ID: fmt.Sprint("op", to.LastRev), Rev: to.LastRev})
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := contexts.PutBundle(t.Context(), appcontext.Bundle{})
	if err != nil {
		t.Fatal(err)
	}
	var places []appcontext.Placement
	for _, c := range clusters {
		places = append(places, appcontext.Placement{Cluster: c, Apps: map[string]appcontext.Digest{"web": bundle}})
	}
	to, err = contexts.Publish(t.Context(), to, appcontext.Revision{Number: to.LastRev}, slices.Values(places))
	if err != nil {
		t.Fatal(err)
	}
	return to
}
