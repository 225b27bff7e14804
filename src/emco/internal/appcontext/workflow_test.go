package appcontext

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// An action that comes between the reads of the head and of its runs shows in both or in neither.
func TestHeadAndRunsAreOfOneMoment(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	plain := newStore(t)
	head := create(t, plain, "1")
	between := func() {}
	s := New(plain.kv.Etcd(), plain.kv.Key(), WithOnOp(func(kind string, _ int) {
		if kind == "get" {
			between()
		}
	}))
	between = func() {
		between = func() {}
		to := head
		to.Op = &Operation{ID: "o", Hooks: true}
		_, err := plain.ChangeHeads(ctx, HeadChange{From: head, To: to, Runs: []WorkflowRun{{Name: HookRun("h"), Operation: "o", State: v2.RunWaiting}}})
		must(t, err)
	}
	read := func() (waits bool, runs int) {
		t.Helper()
		h, all, err := s.HeadAndRuns(ctx, "1")
		must(t, err)
		return h.Op != nil, len(all)
	}
	if waits, runs := read(); waits || runs != 0 {
		t.Errorf("before the action: an operation %v, %d runs", waits, runs)
	}
	if waits, runs := read(); !waits || runs != 1 {
		t.Errorf("after the action: an operation %v, %d runs", waits, runs)
	}
	if h, all, err := s.HeadAndRuns(ctx, "2"); h != nil || len(all) != 0 || err != nil {
		t.Errorf("a deployment that does not exist: %v, %v, %v", h, all, err)
	}
}

// The removal of a key that is no run's does not end the watch.
func TestWatchRunsSkipsKeysThatAreNoRuns(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	must(t, addRun(ctx, s, "first"))
	var seen []RunName
	for r, err := range s.WatchRuns(ctx) {
		must(t, err)
		if seen = append(seen, r.Name); r.Name == HookRun("last") {
			break
		}
		if r.Name == HookRun("first") {
			odd := s.kv.Key(string(HookSpace), "odd")
			_, _, err := s.kv.Commit(ctx, odd, nil, []clientv3.Op{clientv3.OpPut(odd, "{}")})
			must(t, err)
			_, _, err = s.kv.Commit(ctx, odd, nil, []clientv3.Op{clientv3.OpDelete(odd)})
			must(t, err)
			must(t, addRun(ctx, s, "last"))
		}
	}
	if len(seen) == 0 || seen[len(seen)-1] != HookRun("last") {
		t.Errorf("the watch yields %q", seen)
	}
}

func addRun(ctx context.Context, s *Store, name string) error {
	_, err := s.SetRun(ctx, WorkflowRun{UID: "1", Name: HookRun(name), State: v2.RunWaiting})
	return err
}
