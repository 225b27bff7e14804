package pairs_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/events"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// lines returns the events since the last call: "type reason cluster: message".
func (f *testStore) lines() (out []string) {
	f.Helper()
	for _, e := range f.TakeEvents(f.Context()) {
		out = append(out, fmt.Sprintf("%s %s %s: %s", e.Type, e.Reason, e.Cluster, e.Message))
	}
	return out
}

func TestEventsAreRecordedOncePerAppNotPerCluster(t *testing.T) {
	t.Parallel()
	f := newTestStore(t)
	one := f.bundle([]string{"a@1"})
	order := []appcontext.App{{Name: "web", DependsOn: []appcontext.Dependency{{App: "db"}}}, {Name: "db"}}
	all := map[string]appcontext.Digest{"db c1": one, "db c2": one, "db c3": one, "web c1": one}
	want := func(what string, want ...string) {
		t.Helper()
		if got := f.lines(); !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	f.want(1, order, all)
	want("a wish", "Normal Blocked c1: app web on c1: waits for app db on c1: not applied yet (and 2 more clusters)")
	var out []pair.Result
	for _, c := range []v2.ClusterKey{"c1", "c2", "c3"} {
		p := f.pairOf("db", c)
		out = append(out, pair.Result{Key: p.Key, Bundle: p.Desired, Commit: "0123456789abcdef"})
	}
	out[0].Err, out[1].Err = errors.New("refused"), errors.New("refused as well")
	fail := func() {
		if err := f.Record(t.Context(), out); err != nil {
			t.Fatal(err)
		}
	}
	fail()
	want("outcomes", "Normal Applied c3: app db is on c3, with commit 0123456789ab", "Warning Failed : app db on c1 (and 1 more cluster): refused")
	fail()
	want("the same again")
	out[0].Err, out[1].Err = nil, nil
	fail()
	if _, err := f.Store.OpenGates(t.Context(), "7"); err != nil {
		t.Fatal(err)
	}
	want("success", "Normal Applied : app db is on 2 clusters, with commit 0123456789ab", "Normal Unblocked c1: app web goes on, on c1")
	f.says("db", "c1", "a Current 1")
	f.says("db", "c2", "a Current 1")
	want("some are ready")
	f.says("db", "c3", "a Current 1")
	want("the last one is", "Normal Ready : app db is ready on all its clusters")
	f.says("db", "c3", "a Failed 1")
	want("one is no more", "Warning NotReady c3: app db on c3: ConfigMap a: Failed")
	f.want(2, order, nil)
	f.deliver()
	f.lines()
	if err := f.Record(t.Context(), []pair.Result{{Key: f.pairOf("web", "c1").Key}}); err != nil {
		t.Fatal(err)
	}
	want("there is an event for everything that is gone")
}

func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	f := newTestStore(t)
	one, all := f.bundle([]string{"a@1"}), map[string]appcontext.Digest{}
	for i := range 3 * events.MaxPerBatch {
		all[fmt.Sprintf("app%02d c1", i)] = one
	}
	f.want(1, nil, all)
	f.deliver()
	if n := len(f.TakeEvents(t.Context())); n != events.MaxPerBatch {
		t.Errorf("%d events, want %d", n, events.MaxPerBatch)
	}
	if n := len(f.TakeEvents(t.Context())); n != 0 {
		t.Errorf("%d events are left", n)
	}
}

func TestAFailedHookIsAnEvent(t *testing.T) {
	t.Parallel()
	f := newTestStore(t)
	f.want(1, nil, map[string]appcontext.Digest{"web c1": f.bundle([]string{"a@1"}, "job-x pre-install")})
	f.deliver()
	f.says("web", "c1", "job-x Failed 1")
	if got := strings.Join(f.lines(), ", "); got != "Warning HookFailed c1: app web on c1: pre-install hook Job job-x failed: the cluster gives no reason" {
		t.Errorf("got %q", got)
	}
}
