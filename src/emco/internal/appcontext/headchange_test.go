package appcontext

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

// wantOvertaken fails the test unless err means that another writer was faster.
func wantOvertaken(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, ErrOvertaken) || !errs.Is(err, errs.Conflict) {
		t.Errorf("%s: got %v, want it overtaken", what, err)
	}
}

func TestTwoMovesAreMadeTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	a, b := create(t, s, "1"), create(t, s, "2")
	change := func(from Head, state State, op *Operation) HeadChange {
		to := from
		to.State = state
		return HeadChange{From: from, To: to, Acts: []HistoryEntry{{State: state}}, Events: []Event{{Reason: state.String()}}, Op: op}
	}
	heads, err := s.ChangeHeads(ctx, change(a, Updated, nil), change(b, Instantiated, &Operation{ID: "o"}))
	must(t, err)
	for i, want := range []State{Updated, Instantiated} {
		h, err := s.Head(ctx, HeadID(strconv.Itoa(i+1)))
		must(t, err)
		if h.State != want || h.Mod != heads[i].Mod || h.Seq != 2 {
			t.Errorf("head %d is %+v, want it %s as returned: %+v", i+1, h, want, heads[i])
		}
		events, err := s.Events(ctx, h.UID)
		must(t, err)
		if len(events) != 1 || events[0].Reason != want.String() || events[0].At.IsZero() {
			t.Errorf("events of %d: %+v", i+1, events)
		}
	}
	if heads[0].Mod != heads[1].Mod {
		t.Errorf("the changes were made at %d and %d, want at once", heads[0].Mod, heads[1].Mod)
	}

	before := keysBelow(t, s, "")
	_, err = s.ChangeHeads(ctx, change(heads[0], Approved, nil), change(b, Terminated, nil)) // b is old
	wantOvertaken(t, "one of two heads is old", err)
	if after := keysBelow(t, s, ""); !slices.Equal(before, after) {
		t.Errorf("keys are %q, want %q", after, before)
	}
	_, err = s.ChangeHeads(ctx, change(heads[0], Approved, nil), change(heads[0], Terminated, nil))
	wantKind(t, err, errs.Invalid)
	_, err = s.ChangeHeads(ctx)
	wantKind(t, err, errs.Invalid)
}

// A cloud that is closed and a deployment that begins to use it, in every order: one of
// the two is overtaken.
func TestAUseAndTheEndOfWhatIsUsedExcludeEachOther(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	is := func(h Head, state State) (Head, error) {
		to := h
		to.State = state
		return s.ChangeHead(ctx, h, to, nil, nil)
	}
	for _, first := range []string{"use", "end"} {
		cloud, err := is(create(t, s, HeadID("cloud-"+first)), Instantiated)
		must(t, err)
		user := create(t, s, HeadID("user-"+first))
		uses, err := s.Uses(ctx, cloud.UID) // a terminate looks first, and finds no user
		must(t, err)

		steps := map[string]func() error{
			"use": func() error {
				to := user
				to.State = Instantiated
				_, err := s.ChangeHeads(ctx, HeadChange{From: user, To: to, Needs: &cloud})
				return err
			},
			"end": func() error {
				to := cloud
				to.State = Terminated
				_, err := s.ChangeHeads(ctx, HeadChange{From: cloud, To: to, Unused: &uses})
				return err
			},
		}
		second := map[string]string{"use": "end", "end": "use"}[first]
		must(t, steps[first]())
		wantOvertaken(t, second+" after "+first, steps[second]())
	}
	if keys := keysBelow(t, s, "use/"); !slices.Equal(keys, []string{"use/cloud-use"}) {
		t.Errorf("uses are %q", keys)
	}
	must(t, s.Delete(ctx, "cloud-use"))
	if keys := keysBelow(t, s, "use/"); len(keys) != 0 {
		t.Errorf("uses are %q after the cloud was deleted", keys)
	}
}

// Deployments that use the same cloud do not get into each other's way.
func TestUsersDoNotOvertakeEachOther(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	cloud := create(t, s, "cloud")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			uid := HeadID(strconv.Itoa(i))
			if _, err := s.ChangeHeads(ctx, HeadChange{To: Head{UID: uid}, Needs: &cloud}); err != nil {
				t.Errorf("user %s: %v", uid, err)
			}
		})
	}
	all.Wait()
}

func TestRemoveWantsTheHeadAsItWasRead(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	wantOvertaken(t, "none was read and there is one", s.Remove(ctx, Head{UID: create(t, s, "1").UID}))
	h, err := s.Head(ctx, "1")
	must(t, err)
	next, err := s.ChangeHead(ctx, h, h, []HistoryEntry{{State: Approved}}, nil)
	must(t, err)
	wantOvertaken(t, "it has moved on", s.Remove(ctx, h))
	must(t, s.Remove(ctx, next))
	if keys := keysBelow(t, s, ""); len(keys) != 0 {
		t.Errorf("left are %q", keys)
	}
	must(t, s.Remove(ctx, Head{UID: "1"}))
}

func TestCommitsOfRevisionsAreMergedAndGoWithThem(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s, ctx := newStore(t, WithClock(func() time.Time { return now }), WithGrace(time.Minute)), t.Context()
	d, err := s.PutBundle(ctx, Bundle{})
	must(t, err)
	h := create(t, s, "7")
	for n := range int64(3) {
		h, err = s.Publish(ctx, h, Revision{Number: n + 1, At: now}, slices.Values(places(1, d)))
		must(t, err)
	}
	wantKind(t, s.RecordCommit(ctx, "7", 9, RevisionCommit{Commit: "c"}), errs.NotFound)
	wantKind(t, s.RecordCommit(ctx, "8", 1, RevisionCommit{Commit: "c"}), errs.NotFound)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := s.RecordCommit(ctx, "7", 1, RevisionCommit{Repository: "r", Branch: "main", Commit: "c", Clusters: 5}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	must(t, s.RecordCommit(ctx, "7", 1, RevisionCommit{Repository: "other", Branch: "main", Commit: "c", Clusters: 1}))
	for i := range maxCommits + 3 {
		must(t, s.RecordCommit(ctx, "7", 3, RevisionCommit{Repository: "r", Commit: strconv.Itoa(i), Clusters: 1}))
	}
	artifact := RevisionCommit{Repository: "oci", Commit: "sha256:d", Clusters: 1, Cluster: "edge+c1"}
	want := []RevisionCommit{{Repository: "r", Branch: "main", Commit: "c", Clusters: 20}, {Repository: "other", Branch: "main", Commit: "c", Clusters: 1}, artifact}
	must(t, s.RecordCommit(ctx, "7", 1, artifact, artifact))
	must(t, s.RecordCommit(ctx, "7", 1, artifact)) // nothing is published twice for a cluster
	got, err := s.Commits(ctx, "7")
	must(t, err)
	if !slices.Equal(got[1], want) {
		t.Errorf("commits of revision 1: %+v, want %+v", got[1], want)
	}
	found := func(prefix string) (out []FoundCommit) {
		for c, err := range s.FindCommits(ctx, prefix) {
			must(t, err)
			out = append(out, c)
		}
		return out
	}
	for i := range maxCommits + 3 {
		must(t, s.RecordCommit(ctx, "7", 2, RevisionCommit{Repository: "r", Branch: "main", Commit: fmt.Sprintf("%04d", i), Clusters: 1}))
	}
	if got := found("c"); !slices.Equal(got, []FoundCommit{{"7", 1, want[0]}, {"7", 1, want[1]}}) {
		t.Errorf("found by its name: %+v", got)
	}
	if got := found("00"); len(got) != maxCommits-3 || got[0].Commit != "0003" { // 0100 to 0102 begin otherwise
		t.Errorf("%d commits are found, from %+v on; want those that are kept", len(got), got[0])
	}
	if got := found("sha256"); len(got) != 0 {
		t.Errorf("what is published is found as a commit: %+v", got)
	}
	if n := len(got[3]); n != maxCommits || got[3][n-1].Commit != strconv.Itoa(maxCommits+2) {
		t.Errorf("revision 3 has %d commits, the last %+v; want the newest %d", n, got[3][n-1], maxCommits)
	}

	now = now.Add(time.Hour)
	for n := range int64(2) {
		h, err = s.Publish(ctx, h, Revision{Number: n + 4, At: now}, slices.Values(places(1, d)))
		must(t, err)
	}
	now = now.Add(time.Hour)
	sweepAll(t, s, 2)
	if got, err = s.Commits(ctx, "7"); err != nil || len(got) != 0 {
		t.Errorf("after the sweep there are commits of %v, %v", got, err)
	}
	if keys := keysBelow(t, s, "commit/"); len(keys) != 0 {
		t.Errorf("after the sweep the index has %q", keys)
	}
	must(t, s.RecordCommit(ctx, "7", h.Rev, RevisionCommit{Repository: "r", Branch: "main", Commit: "c", Clusters: 1}))
	if got := found("c"); len(got) != 1 {
		t.Errorf("a new commit is found as %+v", got)
	}
	_, err = s.kv.Etcd().Put(ctx, s.kv.Key("dep", "7", "commit", "damaged"), "?") // it stops no removal
	must(t, err)
	must(t, s.Remove(ctx, h))
	if keys := keysBelow(t, s, ""); slices.ContainsFunc(keys, func(k string) bool { return strings.Contains(k, "commit") }) {
		t.Errorf("after the removal there are %q", keys)
	}
}

// Clusters know a migrated deployment by the id of the head it came from. A pair that names
// a revision of the new head keeps that revision.
func TestSweepKeepsRevisionsThatPairsOfAMovedDeploymentName(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s, ctx := newStore(t, WithClock(func() time.Time { return now }), WithGrace(time.Minute)), t.Context()
	d, err := s.PutBundle(ctx, Bundle{})
	must(t, err)
	h, err := s.ChangeHead(ctx, Head{}, Head{UID: "new", Inherited: "old"}, nil, nil)
	must(t, err)
	for n := range int64(3) {
		h, err = s.Publish(ctx, h, Revision{Number: n + 1, At: now}, slices.Values(places(1, d)))
		must(t, err)
	}
	key := PairKey{Cluster: "p+a", Deployment: h.Deployment(), App: "a"}
	must(t, s.PutPairs(ctx, Fence{}, []Pair{{Key: key, Rev: 1, Desired: d}}, nil))
	now = now.Add(time.Hour)
	sweepAll(t, s, 1)
	var kept []int64
	for _, r := range collect(t, s.Revisions(ctx, "new")) {
		kept = append(kept, r.Number)
		if r.Deployed != "old" {
			t.Errorf("revision %d carries the id %q, want old", r.Number, r.Deployed)
		}
	}
	if !slices.Equal(kept, []int64{1, 3}) {
		t.Errorf("kept are %v, want the one that a pair names and the newest", kept)
	}
}

func TestWatchEventsTellsWhatIsThereAndWhatComes(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	add := func(reasons ...string) {
		for _, r := range reasons {
			must(t, s.AddEvents(ctx, Event{UID: "7", Reason: r}, Event{UID: "70", Reason: "not ours"}))
		}
	}
	add("a", "b")
	got, ended := make(chan string), make(chan struct{})
	go func() {
		defer close(ended)
		for e, err := range s.WatchEvents(ctx, "7") {
			if err != nil || e.UID != "7" {
				t.Errorf("got %+v, %v", e, err)
			}
			got <- e.Reason
		}
	}()
	for _, want := range []string{"a", "b"} {
		if r := etcdtest.Receive(t, got, want); r != want {
			t.Errorf("got %q, want %q", r, want)
		}
	}
	add("c")
	if r := etcdtest.Receive(t, got, "c"); r != "c" {
		t.Errorf("got %q, want c", r)
	}
	cancel()
	etcdtest.Receive(t, ended, "the end")
	for _, err := range s.WatchEvents(t.Context(), "a/b") {
		wantKind(t, err, errs.Invalid)
	}
}

// One watch yields the event logs of all deployments, and the events that they drop. A compaction may
// restart it at any time.
func TestWatchAllEventsTellsOfEveryLog(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	must(t, s.AddEvents(ctx, Event{UID: "7", Reason: "a"}, Event{UID: "70", Reason: "b"}))
	got, ended := make(chan string, 100), make(chan struct{})
	go func() {
		defer close(ended)
		known := map[string]string{}
		for c, err := range s.WatchAllEvents(ctx) {
			switch {
			case err != nil:
				t.Error(err)
			case c.Restart:
				clear(known)
			case c.Gone:
				delete(known, string(c.Event.UID)+c.ID)
			case c.UpTo > 0:
				got <- strings.Join(slices.Sorted(maps.Values(known)), " ")
			default:
				known[string(c.Event.UID)+c.ID] = string(c.Event.UID) + c.Event.Reason
			}
		}
	}()
	expect := func(want string) {
		t.Helper()
		for known := ""; known != want; {
			known = etcdtest.Receive(t, got, want)
		}
	}
	expect("70b 7a")
	must(t, s.AddEvents(ctx, Event{UID: "8", Reason: "c"}))
	expect("70b 7a 8c")
	b := s.kv.NewBatch("events")
	must(t, b.Add(ctx, clientv3.OpDelete(s.kv.Key("event", "7")+"/", clientv3.WithPrefix())))
	must(t, b.Flush(ctx))
	expect("70b 8c")
	cancel()
	etcdtest.Receive(t, ended, "the end")
}
