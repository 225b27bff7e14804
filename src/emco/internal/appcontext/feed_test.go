package appcontext

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// It runs alone: after a compaction, which other tests cause, everything is yielded twice.
func TestTapTellsThreeSpacesInOrder(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	h := create(t, s, "7")
	k := PairKey{Cluster: "c", Deployment: "7", App: "a"}
	must(t, s.PutPairs(ctx, Fence{}, []Pair{{Key: k, Rev: 1}}, nil))
	must(t, s.PutReports(ctx, Fence{}, []Report{{Key: k, Seq: 1}}, nil))
	tap := s.ChangeFeed()
	events := started(t, func(ctx context.Context) func(func(Record, error) bool) { return tap.Records(ctx) })
	next := func(marks bool) string {
		r := etcdtest.Receive(t, events, "a record")
		for ; r.UpTo > 0 && !marks; r = etcdtest.Receive(t, events, "a record") {
		}
		switch {
		case r.Restart:
			return "begin"
		case r.UpTo > 0:
			return "mark"
		case r.Gone:
			return fmt.Sprint(r.Space, " ", r.Key, " gone")
		case r.Head != nil:
			return fmt.Sprint(r.Space, " ", r.Head.UID)
		case r.Pair != nil:
			return fmt.Sprint(r.Space, " ", r.Pair.Key, " ", r.Pair.Rev)
		}
		return fmt.Sprint(r.Space, " ", r.Report.Key, " ", r.Report.Seq)
	}
	for _, want := range []string{"begin", "head 7", "pair {c 7 a} 1", "report {c 7 a} 1", "mark"} {
		if got := next(true); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	_, err := s.ChangeHead(ctx, h, h, nil, &Operation{ID: "1"}) // operations are in the range, but are not yielded
	must(t, err)
	must(t, s.PutPairs(ctx, Fence{}, nil, []PairKey{k}))
	for _, want := range []string{"head 7", "pair {c 7 a} gone"} {
		if got := next(false); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	must(t, s.AddEvents(ctx, Event{UID: "7"})) // not in the range, but it moves etcd's revision
	now, err := tap.Revision(ctx)
	must(t, err)
	for mark := int64(0); mark < now; {
		must(t, tap.RequestProgress(ctx))
		r := etcdtest.Receive(t, events, "a mark that was asked for")
		mark = r.UpTo
	}
}

// What is listed in parts at different revisions is complete only at the newest of them.
func TestTapHoldsMarksBackUntilAListIsWhole(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for i := range 200 {
		create(t, s, HeadID(fmt.Sprintf("d%03d", i)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	var asks sync.WaitGroup
	defer func() { cancel(); asks.Wait() }()
	changed, tap, told := Head{}, s.ChangeFeed(), map[HeadID]Head{}
	for r, err := range tap.Records(ctx) {
		must(t, err)
		switch {
		case r.Head != nil:
			told[r.Head.UID] = *r.Head
		case r.UpTo > 0:
			if told[changed.UID].Mod != changed.Mod {
				t.Errorf("marked before the change of %s was yielded", changed.UID)
			}
			return
		}
		if len(told) == 1 && changed.Mod == 0 {
			changed, err = s.ChangeHead(ctx, *r.Head, *r.Head, nil, nil)
			must(t, err)
			compact(t)
			asks.Go(func() { // someone asks now and then, as a mirror does
				for ctx.Err() == nil {
					_ = tap.RequestProgress(ctx)
					select {
					case <-ctx.Done():
					case <-time.After(10 * time.Millisecond):
					}
				}
			})
		}
	}
	t.Error("no mark came")
}

func TestTapTellsOfRecordsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	_, err := etcd.Put(t.Context(), pairstore.RecordKey(s.kv, PairKey{Cluster: "c", Deployment: "7", App: "a"}), `{`)
	must(t, err)
	var bad []error
	for r, err := range s.ChangeFeed().Records(t.Context()) {
		if err != nil {
			bad = append(bad, err)
			if r.Space != PairSpace || r.Key.App != "a" {
				t.Errorf("got %+v", r)
			}
		}
		if r.UpTo > 0 {
			break
		}
	}
	if len(bad) != 1 || !errs.Is(bad[0], errs.Internal) {
		t.Errorf("got errors %v, want one of kind internal", bad)
	}
}

// What is read with a memory is what is read without.
func TestReportsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	s, reader := newStore(t), reportDecoder{}
	for i := range 20 {
		want := Report{Key: pairKeyOf(i), Seq: uint64(i), At: time.Unix(int64(i), 0).UTC(), Commit: "c", Proof: Proof{By: "c", Holds: fmt.Sprint("h", i)}, Ready: i%2 == 0, Since: time.Unix(1, 0).UTC(), Truncated: i}
		for k := range i {
			id := manifest.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "n", Name: fmt.Sprint("o", k)}
			want.Resources = append(want.Resources, ResourceStatus{ID: id, Status: "Current", Reason: fmt.Sprint("so ", k%3), Content: "0123", Extra: k%4 == 0})
		}
		must(t, s.PutReports(t.Context(), Fence{}, []Report{want}, nil))
		kv, err := s.kv.Get(t.Context(), s.kv.Key("report", string(want.Key.Cluster), string(want.Key.Deployment), want.Key.App))
		must(t, err)
		got, err := reader.decode(kv.Kvs[0])
		must(t, err)
		got.Key = want.Key
		if len(want.Resources) == 0 {
			want.Resources = []ResourceStatus{}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	}
	if len(reader) != 19 {
		t.Errorf("%d statuses are kept, want 19", len(reader))
	}
	for _, bad := range []string{`{`, `{"resources":[{"name":7}]}`, `{"resources":{}}`} {
		if got, err := reader.decode(&mvccpb.KeyValue{Key: []byte("k"), Value: []byte(bad)}); !errs.Is(err, errs.Internal) {
			t.Errorf("%s: got %+v, %v", bad, got, err)
		}
	}
}
