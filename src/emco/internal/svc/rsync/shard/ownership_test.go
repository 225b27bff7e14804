package shard

import (
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

func TestADeploymentBelongsToWhoTookItOver(t *testing.T) {
	t.Parallel()
	o := newDeploymentOwners()
	learn := func(h appcontext.Head, deployment v2.DeploymentID, owns bool) {
		t.Helper()
		if d, mine := o.update(h); d != deployment || mine != owns {
			t.Errorf("%+v: got %s, %v; want %s, %v", h, d, mine, deployment, owns)
		}
	}
	lose := func(id appcontext.HeadID, deployment v2.DeploymentID, owns bool) {
		t.Helper()
		if d, mine := o.remove(id); d != deployment || mine != owns {
			t.Errorf("without %s: got %s, %v; want %s, %v", id, d, mine, deployment, owns)
		}
	}
	learn(appcontext.Head{UID: "1"}, "1", true)
	learn(appcontext.Head{UID: "2", Inherited: "1"}, "1", true)
	learn(appcontext.Head{UID: "1"}, "1", false) // it was handed over, and does not know yet
	learn(appcontext.Head{UID: "1", MovedTo: "2"}, "1", false)
	learn(appcontext.Head{UID: "3", Inherited: "1"}, "1", true)
	learn(appcontext.Head{UID: "2", Inherited: "1", MovedTo: "3"}, "1", false)
	learn(appcontext.Head{UID: "3", Inherited: "1"}, "1", true)
	lose("1", "1", false)
	lose("2", "1", false)
	lose("3", "1", true)
	lose("4", "4", true) // of one that was never seen, its own id is a guess
	if len(o.heads)+len(o.heirs) > 0 {
		t.Errorf("%v and %v are remembered", o.heads, o.heirs)
	}
}
