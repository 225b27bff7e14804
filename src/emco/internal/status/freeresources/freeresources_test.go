package freeresources_test

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/freeresources"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// said is what agents reported.
type said map[v2.ClusterKey]struct {
	at    time.Time
	nodes status.Capacity
}

func (s said) AgentsOf(_ context.Context, clusters []v2.ClusterKey) (out []agents.Agent, err error) {
	for _, c := range clusters {
		if a, known := s[c]; known {
			out = append(out, agents.Agent{Cluster: c, At: a.at})
		}
	}
	return out, nil
}

func (s said) Capacities(_ context.Context, clusters []v2.ClusterKey) (out []agents.Capacity, err error) {
	for _, c := range clusters {
		out = append(out, agents.Capacity{Capacity: s[c].nodes})
	}
	return out, nil
}

// api is the API servers of direct clusters.
type api struct {
	mu     sync.Mutex
	reads  int // guarded by mu
	closed int // guarded by mu
	answer func(ctx context.Context) (status.Capacity, error)
}

func (a *api) connect(_ context.Context, cluster v2.ClusterKey) (freeresources.Connection, bool, error) {
	switch cluster {
	case "p+broken":
		return nil, true, errors.New("the secret of its kubeconfig is lost")
	case "p+unread":
		return nil, false, errs.New(errs.Unavailable, "the documents do not answer")
	}
	return a, strings.HasPrefix(string(cluster), "p+direct"), nil
}

func (a *api) Capacity(ctx context.Context) (status.Capacity, error) {
	a.mu.Lock()
	a.reads++
	a.mu.Unlock()
	return a.answer(ctx)
}

func (a *api) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed++
}

// silence is an API server that does not answer.
func silence(ctx context.Context) (status.Capacity, error) {
	<-ctx.Done()
	return status.Capacity{}, ctx.Err()
}

func directClusters(n int) (out []v2.ClusterKey) {
	for range n {
		out = append(out, v2.NewClusterKey("p", "direct"+strings.Repeat("x", len(out))))
	}
	return out
}

func TestReportsCountWhileTheirAgentLives(t *testing.T) {
	t.Parallel()
	three := status.Capacity{Nodes: 3}
	reports := said{
		"p+alive": {start.Add(-time.Minute), three}, "p+silent": {start.Add(-time.Hour), three}, "p+old": {start, status.Capacity{}},
		"p+forbidden": {start, status.Capacity{Problem: "nodes and pods may not be listed"}}, "p+direct": {start.Add(-time.Hour), three},
	}
	a := &api{answer: func(context.Context) (status.Capacity, error) { return status.Capacity{Nodes: 5}, nil }}
	r := freeresources.New(reports, a.connect, 3*time.Minute, func() time.Time { return start }, slog.New(slog.DiscardHandler))
	got, err := r.Of(t.Context(), []v2.ClusterKey{"p+alive", "p+broken", "p+direct", "p+forbidden", "p+none", "p+old", "p+silent"})
	want := map[v2.ClusterKey]status.Capacity{
		"p+alive": three, "p+direct": {Nodes: 5},
		"p+broken":    {Problem: "it cannot be reached as it is registered"},
		"p+forbidden": {Problem: "nodes and pods may not be listed"},
		"p+none":      {Problem: "no monitor has reported"},
		"p+old":       {Problem: "its monitor does not report free resources; set capacity.report of the monitor's chart"},
		"p+silent":    {Problem: "its monitor is silent since 2026-01-02T02:04:05Z"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Of = %+v, %v", got, err)
	}
}

func TestReportsAreShown(t *testing.T) {
	t.Parallel()
	class := func(count int, free uint64) status.NodeClass {
		return status.NodeClass{Count: count, Resources: []status.NodeResource{{Name: "cpu", Allocatable: 4000, Free: free}, {Name: "memory", Allocatable: 8 << 30, Free: 1 << 30}}}
	}
	reports := said{
		"p+a": {start, status.Capacity{Nodes: 9, Cut: 1, Classes: []status.NodeClass{class(2, 2500), class(3, 500)}}},
		"p+b": {start, status.Capacity{Problem: "forbidden"}}, "p+c": {start, status.Capacity{}},
	}
	r := freeresources.New(reports, nil, time.Minute, func() time.Time { return start }, slog.New(slog.DiscardHandler))
	for cluster, want := range map[v2.ClusterKey]*v2.ClusterCapacity{
		"p+a": {Reported: start, Nodes: 9, Open: 6, Resources: []v2.ResourceCapacity{
			{Name: "cpu", Free: "6500m", Allocatable: "20", Largest: "2500m"}, {Name: "memory", Free: "5Gi", Allocatable: "40Gi", Largest: "1Gi"},
		}},
		"p+b": {Reported: start, Problem: "forbidden"}, "p+c": nil,
	} {
		if got, err := r.View(t.Context(), cluster); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", cluster, got, err, want)
		}
	}
}

// A direct cluster is read once in a while, whoever asks; also one that does not answer, which delays no caller for long.
func TestDirectClustersAreReadOnceInAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{answer: silence}
		r, clusters := freeresources.New(said{}, a.connect, time.Minute, time.Now, slog.New(slog.DiscardHandler)), directClusters(40)
		began := time.Now()
		got, err := r.Of(t.Context(), clusters)
		if took := time.Since(began); err != nil || took != 30*time.Second || len(got) != 40 || got["p+direct"].Problem != "the API server does not answer" {
			t.Errorf("after %s: %+v, %v", took, got, err)
		}
		if a.reads != 40 || a.closed != 40 {
			t.Errorf("%d reads, %d closed", a.reads, a.closed)
		}
		a.answer = func(context.Context) (status.Capacity, error) { return status.Capacity{Nodes: 2}, nil }
		time.Sleep(time.Minute) //nolint:forbidigo // of a bubble's clock
		for range 3 {
			if got, err = r.Of(t.Context(), clusters[:1]); err != nil || got["p+direct"].Nodes != 2 {
				t.Errorf("Of = %+v, %v", got, err)
			}
		}
		if a.reads != 41 {
			t.Errorf("%d reads, want one more", a.reads)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.Of(ended, clusters[1:2]); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that left gets %v", err)
		}
	})
}

// A store that does not answer is an error, and no answer about a cluster: the caller tries again.
func TestAStoreThatDoesNotAnswerIsAnError(t *testing.T) {
	t.Parallel()
	r := freeresources.New(said{}, (&api{}).connect, time.Minute, time.Now, slog.New(slog.DiscardHandler))
	if got, err := r.Of(t.Context(), []v2.ClusterKey{"p+other", "p+unread"}); !errs.Is(err, errs.Unavailable) {
		t.Errorf("Of = %+v, %v, want Unavailable", got, err)
	}
}

// API servers that do not answer leave no time for others. That is no fault of these.
func TestClustersThatWereNotAskedAreNotBlamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{answer: silence}
		r, clusters := freeresources.New(said{}, a.connect, time.Minute, time.Now, slog.New(slog.DiscardHandler)), directClusters(100)
		got, err := r.Of(t.Context(), clusters)
		count := map[string]int{}
		for _, c := range got {
			count[c.Problem]++
		}
		silent, unasked := count["the API server does not answer"], count["there was no time to look at it: API servers of other clusters did not answer"]
		if err != nil || silent != a.reads || silent < 48 || unasked == 0 || silent+unasked != 100 {
			t.Errorf("%v, %v after %d reads, want that 48 do not answer", count, err, a.reads)
		}
	})
}
