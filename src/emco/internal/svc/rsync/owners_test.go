package rsync

import (
	"context"
	"errors"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
)

func TestADeploymentBelongsToWhoTookItOver(t *testing.T) {
	t.Parallel()
	o := newOwners()
	learn := func(h appcontext.Head, deployment string, owns bool) {
		t.Helper()
		if d, mine := o.learn(h); d != deployment || mine != owns {
			t.Errorf("%+v: got %s, %v; want %s, %v", h, d, mine, deployment, owns)
		}
	}
	lose := func(uid, deployment string, owns bool) {
		t.Helper()
		if d, mine := o.lose(uid); d != deployment || mine != owns {
			t.Errorf("without %s: got %s, %v; want %s, %v", uid, d, mine, deployment, owns)
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

func TestBrakesStopOneDeployment(t *testing.T) {
	t.Parallel()
	b := queue.NewCancellations(t.Context())
	one, other := b.For("1"), b.For("2")
	both, release := b.WithAny(t.Context(), map[string]bool{"1": true, "2": true})
	defer release()
	b.Cancel("1")
	<-both.Done()
	if !errors.Is(one.Err(), context.Canceled) || other.Err() != nil {
		t.Errorf("work on 1 ended with %v, on 2 with %v; want the first alone", one.Err(), other.Err())
	}
	if err := b.For("1").Err(); err != nil {
		t.Errorf("work that begins later ended with %v", err)
	}
	alone, release := b.WithAny(t.Context(), map[string]bool{"2": true})
	release()
	if alone.Err() == nil || b.For("2").Err() != nil {
		t.Error("a release has to end the context, and nothing else")
	}
}
