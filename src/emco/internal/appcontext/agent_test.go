package appcontext

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

func TestAgentsChangeByCompareAndSwap(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hear := func(ok bool, words ...agents.Update) []agents.Agent {
		t.Helper()
		now, done, err := s.UpdateAgents(ctx, words)
		must(t, err)
		if done != ok {
			t.Fatalf("Hear = %v, want %v", done, ok)
		}
		for _, a := range now {
			if got, err := s.Agent(ctx, a.Cluster); err != nil || !reflect.DeepEqual(got, a) {
				t.Errorf("Agent = %+v, %v, want what Hear returned: %+v", got, err, a)
			}
		}
		return now
	}
	a, b := agents.Agent{Cluster: "edge+a", Seq: 1, At: at}, agents.Agent{Cluster: "edge+b", Seq: 1, At: at, Tokens: []agents.Token{{ID: "x", Sum: []byte{1}, Made: at}}}
	first := hear(true, agents.Update{Agent: a}, agents.Update{Agent: b})
	a = first[0]
	a.Seq = 2
	second := hear(true, agents.Update{Agent: a})
	b = first[1]
	b.Seq = 2
	stale := hear(false, agents.Update{Agent: b}, agents.Update{Agent: a}) // a is no longer at that revision
	if stale[0].Seq != 1 || stale[1].Mod != second[0].Mod {
		t.Errorf("after a refusal the agents are %+v", stale)
	}
	all, err := s.AgentsOf(ctx, []v2.ClusterKey{"edge+none", "edge+b", "edge+a"})
	must(t, err)
	if len(all) != 2 || all[0].Cluster != "edge+b" || all[1].Seq != 2 {
		t.Errorf("AgentsOf = %+v", all)
	}
	wantKind(t, s.DeleteAgent(ctx, first[0]), errs.Conflict)
	must(t, s.DeleteAgent(ctx, second[0]))
	if got, err := s.Agent(ctx, "edge+a"); err != nil || got.Mod != 0 || got.Seq != 0 {
		t.Errorf("a forgotten agent is %+v, %v", got, err)
	}
}

// Nothing is left of clusters that are gone, unless they report at that moment. Nothing is
// removed if it is not known whether a cluster is gone.
func TestAgentsOfClustersThatAreGoneAreSwept(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	for _, cluster := range []v2.ClusterKey{"edge+a", "edge+b", "edge+c", "edge+d"} {
		said := &agents.Document{Cluster: cluster, Seq: 1, Text: []byte("all is well")}
		_, _, err := s.UpdateAgents(ctx, []agents.Update{{Agent: agents.Agent{Cluster: cluster, Seq: 1}, Document: said}})
		must(t, err)
	}
	gone := map[v2.ClusterKey]bool{"edge+b": true, "edge+c": true, "edge+d": true}
	err := s.SweepAgents(ctx, func(_ context.Context, cluster v2.ClusterKey) (bool, error) {
		switch cluster {
		case "edge+c": // it reports meanwhile
			a, err := s.Agent(ctx, cluster)
			must(t, err)
			a.Seq = 2
			_, _, err = s.UpdateAgents(ctx, []agents.Update{{Agent: a}})
			must(t, err)
		case "edge+d":
			return false, errs.New(errs.Unavailable, "not known now")
		}
		return !gone[cluster], nil
	})
	wantKind(t, err, errs.Unavailable)
	want := []string{"heard/edge+a", "heard/edge+c", "heard/edge+d"}
	if keys := keysBelow(t, s, "heard"); !slices.Equal(keys, want) {
		t.Errorf("known are %q, want %q", keys, want)
	}
	must(t, s.SweepAgents(ctx, func(_ context.Context, cluster v2.ClusterKey) (bool, error) { return !gone[cluster], nil }))
	if keys := append(keysBelow(t, s, "heard"), keysBelow(t, s, "said")...); !slices.Equal(keys, []string{"heard/edge+a", "said/edge+a/00"}) {
		t.Errorf("left are %q", keys)
	}
}

func TestDocumentsOfAgentsReplaceEachOther(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	a := agents.Agent{Cluster: "edge+a"}
	for i, size := range []int{10, agents.MaxDocument, etcdkv.MaxValue + 7, 0, 2 * etcdkv.MaxValue} {
		d := agents.Document{Cluster: "edge+a", Seq: uint64(i + 1), At: time.Unix(int64(i), 0).UTC(), Gzip: i%2 == 1, Text: bytes.Repeat([]byte{'a' + byte(i)}, size)}
		a.DocumentID, a.Seq = fmt.Sprint(i), d.Seq
		w := agents.Update{Agent: a, Document: &d, OldParts: a.Parts}
		ops, weight := w.Weight()
		if weight > agents.MaxUpdateBytes || ops > agents.MaxUpdateOps {
			t.Errorf("a document of %d bytes weighs %d operations and %d bytes, which never fits", size, ops, weight)
		}
		now, ok, err := s.UpdateAgents(ctx, []agents.Update{w})
		must(t, err)
		if !ok {
			t.Fatal("another writer was faster")
		}
		a = now[0]
		got, err := s.AgentDocuments(ctx, []v2.ClusterKey{"edge+none", "edge+a"})
		must(t, err)
		if len(got) != 1 || got[0].Seq != d.Seq || got[0].Gzip != d.Gzip || !got[0].At.Equal(d.At) || !bytes.Equal(got[0].Text, d.Text) {
			t.Errorf("of %d bytes %d came back, %d documents", size, len(got[0].Text), len(got))
		}
	}
	_, _, err := s.UpdateAgents(ctx, []agents.Update{{Agent: a, Document: &agents.Document{Cluster: "edge+a", Text: make([]byte, agents.MaxDocument+1)}}})
	wantKind(t, err, errs.TooLarge)
	_, _, err = s.UpdateAgents(ctx, []agents.Update{{Agent: agents.Agent{Cluster: "edge/a"}}})
	wantKind(t, err, errs.Invalid)
	must(t, s.DeleteAgent(ctx, a))
	if got, err := s.AgentDocuments(ctx, []v2.ClusterKey{"edge+a"}); err != nil || len(got) != 0 {
		t.Errorf("of a forgotten agent %d documents are left, %v", len(got), err)
	}
}

func TestWhatAgentsSayOfNodesIsStored(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	four := status.Capacity{Nodes: 4, Classes: []status.NodeClass{{Count: 4, Resources: []status.NodeResource{{Name: "cpu", Allocatable: 4000, Free: 1000}}}}}
	must(t, s.SetCapacity(ctx, "edge+a", at, status.Capacity{})) // an empty one needs no value
	must(t, s.SetCapacity(ctx, "edge+b", at, four))
	must(t, s.SetCapacity(ctx, "edge+b", at.Add(time.Hour), four))
	got, err := s.Capacities(ctx, []v2.ClusterKey{"edge+a", "edge+b"})
	must(t, err)
	if len(got) != 2 || got[0].Capacity.Known() || !got[1].At.Equal(at) || !reflect.DeepEqual(got[1].Capacity, four) {
		t.Errorf("Capacities = %+v", got)
	}
	must(t, s.SetCapacity(ctx, "edge+b", at.Add(time.Hour), status.Capacity{Problem: "forbidden"}))
	if got, err = s.Capacities(ctx, []v2.ClusterKey{"edge+b"}); err != nil || got[0].Capacity.Problem != "forbidden" || !got[0].At.Equal(at.Add(time.Hour)) {
		t.Errorf("Capacities = %+v, %v", got, err)
	}
	must(t, s.SetCapacity(ctx, "edge+b", at, status.Capacity{})) // it stopped to report them
	must(t, s.SetCapacity(ctx, "edge+c", at, four))
	if keys := keysBelow(t, s, "capacity"); !slices.Equal(keys, []string{"capacity/edge+c"}) {
		t.Errorf("stored are %q", keys)
	}
	now, _, err := s.UpdateAgents(ctx, []agents.Update{{Agent: agents.Agent{Cluster: "edge+c"}}})
	must(t, err)
	must(t, s.DeleteAgent(ctx, now[0]))
	if keys := keysBelow(t, s, "capacity"); len(keys) != 0 {
		t.Errorf("of deleted agents are left %q", keys)
	}
	wantKind(t, s.SetCapacity(ctx, "edge/c", at, four), errs.Invalid)
}

// Processes that store the same report, or two of them, at the same time do not fail.
func TestProcessesStoreWhatNodesHaveTogether(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			if err := s.SetCapacity(t.Context(), "edge+a", time.Unix(int64(i), 0), status.Capacity{Nodes: 1 + i%2}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got, err := s.Capacities(t.Context(), []v2.ClusterKey{"edge+a"}); err != nil || !got[0].Capacity.Known() {
		t.Errorf("Capacities = %+v, %v", got, err)
	}
}

// A value that cannot be read, as after damage, does not prevent reads and writes of those of other clusters. The next
// one replaces it.
func TestDamagedRecordsOfAgentsAreReplaced(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	for _, key := range []string{"capacity", "denied"} {
		_, err := etcd.Put(ctx, s.kv.Key(key, "edge+a"), "?")
		must(t, err)
	}
	at, one := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), status.Capacity{Nodes: 1}
	must(t, s.SetCapacity(ctx, "edge+b", at, one))
	clusters := []v2.ClusterKey{"edge+a", "edge+b"}
	if got, err := s.Capacities(ctx, clusters); err != nil || got[0].Capacity.Known() || got[0].Capacity.Problem == "" || !got[1].Capacity.Known() {
		t.Errorf("Capacities = %+v, %v", got, err)
	}
	must(t, s.SetCapacity(ctx, "edge+a", at, one))
	if got, err := s.Capacities(ctx, clusters); err != nil || !got[0].Capacity.Known() {
		t.Errorf("Capacities = %+v, %v after a report", got, err)
	}
	refused := agents.Refusals{Count: 2, Result: "forged", Why: "x", At: at}
	must(t, s.AddRefusals(ctx, map[v2.ClusterKey]agents.Refusals{"edge+a": refused, "edge+b": refused}))
	must(t, s.AddRefusals(ctx, map[v2.ClusterKey]agents.Refusals{"edge+b": refused}))
	for i, want := range []uint64{2, 4} {
		if got, err := s.RefusalsOf(ctx, clusters[i]); err != nil || got.Count != want {
			t.Errorf("RefusalsOf %s = %+v, %v, want %d", clusters[i], got, err, want)
		}
	}
}

// Reads repeat every few seconds, but a damaged value is logged once, and again only when another damaged value takes its place.
func TestADamagedCapacityIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s, ctx := newStore(t, WithLog(slog.New(slog.NewTextHandler(&log, nil)))), t.Context()
	clusters := []v2.ClusterKey{"edge+a", "edge+b", "edge+c"}
	damage := func(c v2.ClusterKey) {
		_, err := etcd.Put(ctx, s.kv.Key("capacity", string(c)), "?")
		must(t, err)
	}
	want := func(what string, lines int) {
		t.Helper()
		for range 3 {
			got, err := s.Capacities(ctx, clusters)
			must(t, err)
			if len(got) != len(clusters) {
				t.Errorf("%s: %d values", what, len(got))
			}
		}
		if n := strings.Count(log.String(), "not readable"); n != lines {
			t.Errorf("%s there are %d lines, want %d:\n%s", what, n, lines, log.String())
		}
	}
	damage("edge+a")
	damage("edge+b")
	want("after damage of two values", 2)
	damage("edge+a")
	want("after other damage", 3)
	must(t, s.SetCapacity(ctx, "edge+a", time.Now(), status.Capacity{Nodes: 1}))
	_, err := etcd.Delete(ctx, s.kv.Key("capacity", "edge+b"))
	must(t, err)
	want("after the next reports", 3)
	damage("edge+b")
	want("after damage of the next value", 4)
}

// A process that has read a report may store its content after the agent was removed.
func TestSweepsRemoveWhatCameAfterTheAgent(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	for _, cluster := range []v2.ClusterKey{"edge+a", "edge+gone"} {
		must(t, s.SetCapacity(ctx, cluster, time.Now(), status.Capacity{Nodes: 1}))
	}
	must(t, s.SweepAgents(ctx, func(_ context.Context, cluster v2.ClusterKey) (bool, error) { return cluster == "edge+a", nil }))
	if keys := keysBelow(t, s, "capacity"); !slices.Equal(keys, []string{"capacity/edge+a"}) {
		t.Errorf("left are %q", keys)
	}
}
