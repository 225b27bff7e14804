package fleet

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/inventory"
)

// Only workloads that a commit changes are in progress, until they have settled.
func TestWhatIsUnchangedStaysSettled(t *testing.T) {
	t.Parallel()
	now := time.Now()
	object := func(kind, name, content string) status.Object {
		return status.Object{Version: "v1", Kind: kind, Name: name, Content: content, Status: status.Current}
	}
	state := func(objects ...status.Object) *inventory.State {
		return &inventory.State{Apps: []inventory.App{{Objects: objects}}}
	}
	c := &cluster{fleet: &Fleet{options: Options{Settle: time.Second}}, random: rand.New(rand.NewPCG(1, 1))}
	wants := func(when string, o status.Object, want string) {
		t.Helper()
		if got := c.objectState(o).Status; got != want {
			t.Errorf("%s, %s is %s, want %s", when, o.Name, got, want)
		}
	}
	web, db, config := object("Deployment", "web", "1"), object("StatefulSet", "db", "1"), object("ConfigMap", "config", "1")
	c.settle(now, state(web, db, config))
	c.state = state(web, db, config)
	wants("first", web, status.InProgress)
	wants("first", config, status.Current)
	c.readyAt, c.settling = time.Time{}, nil
	next := object("Deployment", "web", "2")
	c.settle(now, state(next, db, config))
	c.state = state(next, db, config)
	wants("after a change of web", next, status.InProgress)
	wants("after a change of web", db, status.Current)
	c.settle(now, state(next, object("StatefulSet", "db", "2"), config))
	wants("after a change of db", next, status.InProgress)
	c.settle(now, state(config))
	if !c.readyAt.IsZero() {
		t.Error("a state without workloads settles")
	}
}
