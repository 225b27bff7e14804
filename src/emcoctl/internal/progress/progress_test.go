package progress_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/progress"
)

// pollAnswer is what one look at the status gives.
type pollAnswer struct {
	status v2.Status
	err    error
}

func under(state, ready string) pollAnswer {
	return pollAnswer{status: v2.Status{DeployedStatus: state, ReadyStatus: ready}}
}

// from gives the answers one after the other, and the last one for ever.
func from(answers ...pollAnswer) (progress.Source, *int) {
	looks := 0
	return func(context.Context) (v2.Status, error) {
		a := answers[min(looks, len(answers)-1)]
		looks++
		return a.status, a.err
	}, &looks
}

func TestWait(t *testing.T) {
	t.Parallel()
	down := pollAnswer{err: errs.New(errs.Unavailable, "connection refused")}
	gone := pollAnswer{err: errs.New(errs.NotFound, "not found")}
	created := pollAnswer{status: v2.Status{States: v2.States{Actions: []v2.Action{{State: "Created"}}}}}
	pending := pollAnswer{status: v2.Status{DeployedStatus: v2.StatusInstantiated, DeployedCounts: map[string]int{"Applied": 2, "Pending": 1}}}
	for _, tt := range []struct {
		name    string
		goal    progress.Goal
		answers []pollAnswer
		looks   int
		log     string
		check   func(error) bool
	}{
		{"ready after a while", progress.Ready, []pollAnswer{under("Instantiating", "NotReady"), under("Instantiated", "NotReady"), under("Instantiated", "Ready")}, 3, "d: Instantiating\nd: Instantiated\n", isNil},
		{"instantiated is enough", progress.Instantiated, []pollAnswer{under("Instantiating", ""), under("Instantiated", "NotReady")}, 2, "d: Instantiating\nd: Instantiated\n", isNil},
		{"applied waits for pending objects", progress.Applied, []pollAnswer{pending, pending, under("Instantiated", "")}, 3, "d: Instantiated; objects: Applied 2, Pending 1\nd: Instantiated\n", isNil},
		{"terminated", progress.Terminated, []pollAnswer{under("Terminating", ""), under("Terminated", "")}, 2, "d: Terminating\nd: Terminated\n", isNil},
		{"deleted is terminated", progress.Terminated, []pollAnswer{gone}, 1, "d: gone\n", isNil},
		{"never begun is terminated", progress.Terminated, []pollAnswer{created}, 1, "d: Created\n", isNil},
		{"missing is not ready", progress.Ready, []pollAnswer{gone}, 1, "", func(err error) bool { return errs.Is(err, errs.NotFound) }},
		{"failed", progress.Ready, []pollAnswer{under("Instantiating", ""), under("InstantiateFailed", "")}, 2, "d: Instantiating\nd: InstantiateFailed\n", isFailed},
		{"a server that restarts", progress.Ready, []pollAnswer{down, down, under("Instantiated", "Ready")}, 3, "d: connection refused\nd: Instantiated\n", isNil},
		{"never", progress.Ready, []pollAnswer{under("Instantiating", "")}, 0, "d: Instantiating\n", isLate("its state is Instantiating")},
		{"a server that stays away", progress.Ready, []pollAnswer{down}, 0, "d: connection refused\n", isLate("connection refused")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				source, looks := from(tt.answers...)
				err := progress.Wait(t.Context(), source, progress.Options{Goal: tt.goal, Timeout: time.Minute, Name: "d", Log: &log})
				if !tt.check(err) {
					t.Errorf("Wait: %v", err)
				}
				if log.String() != tt.log {
					t.Errorf("log %q, want %q", log.String(), tt.log)
				}
				if tt.looks != 0 && *looks != tt.looks || *looks > 40 {
					t.Errorf("%d looks, want %d, never more than 40 in a minute", *looks, tt.looks)
				}
			})
		})
	}
}

func isNil(err error) bool { return err == nil }

func isFailed(err error) bool {
	_, ok := errors.AsType[*progress.FailedError](err)
	return ok
}

func isLate(held string) func(error) bool {
	return func(err error) bool {
		late, ok := errors.AsType[*progress.TimeoutError](err)
		return ok && slices.Equal(late.Held, []string{held})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		source, _ := from(under("Instantiating", ""))
		time.AfterFunc(3*time.Second, cancel)
		err := progress.Wait(ctx, source, progress.Options{Goal: progress.Ready, Name: "d", Log: &bytes.Buffer{}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Wait: %v, want context.Canceled", err)
		}
	})
}

func TestExplanations(t *testing.T) {
	t.Parallel()
	object := func(kind, name, ready, reason string) v2.ResourceStatus {
		return v2.ResourceStatus{GVK: v2.GVK{Kind: kind}, Name: name, ReadyStatus: ready, Reason: reason}
	}
	s := v2.Status{
		DeployedStatus: v2.StatusInstantiating,
		ReadyCounts:    map[string]int{"Ready": 1, "NotReady": 2},
		Apps: []v2.AppStatus{
			{Name: "bad", Failure: &v2.AppFailure{Stage: "rendering", File: "x.yaml", Reason: "no"}},
			{Name: "web", Clusters: []v2.ClusterStatus{
				{Provider: "p", Cluster: "a", Phase: "Applied", Resources: []v2.ResourceStatus{object("Pod", "ok", "Ready", ""), object("Deployment", "d", "NotReady", "1 of 2"), object("Pod", "x", "Unknown", "silent"), object("Pod", "y", "Unknown", "silent")}},
				{Provider: "p", Cluster: "b", Phase: "Retrying", Error: "push refused"},
				{Provider: "p", Cluster: "c", Phase: "Pending"},
			}},
		},
	}
	if got, want := progress.Summary(s), "Instantiating; clusters: Applied 1, Pending 1, Retrying 1; readiness: NotReady 2, Ready 1; app bad: rendering: x.yaml: no"; got != want {
		t.Errorf("Summary = %q, want %q", got, want)
	}
	want := []string{
		"app bad: rendering: x.yaml: no", "web on p+b: push refused",
		"web on p+a: Deployment d is NotReady: 1 of 2", "web on p+a: Unknown: silent", "web on p+c: Pending",
	}
	if got := progress.Holding(s, progress.Ready); !slices.Equal(got, want) {
		t.Errorf("Holding = %q, want %q", got, want)
	}
	for range 50 {
		s.Apps[1].Clusters = append(s.Apps[1].Clusters, v2.ClusterStatus{Provider: "p", Cluster: "z", Phase: "Pending"})
	}
	if got := progress.Holding(s, progress.Ready); len(got) != 21 || !strings.HasPrefix(got[20], "and 35 more") {
		t.Errorf("Holding lists %d, ends with %q; want 20 and the rest counted", len(got), got[len(got)-1])
	}
}

// Each finding about an app on clusters is listed once, with the number of its clusters.
func TestF52FindingsAreListedOnce(t *testing.T) {
	t.Parallel()
	s := v2.Status{Apps: []v2.AppStatus{{Name: "web"}}}
	for i := range 30 {
		s.Apps[0].Clusters = append(s.Apps[0].Clusters, v2.ClusterStatus{Provider: "edge", Cluster: fmt.Sprintf("c%02d", i), Findings: []string{"rename one"}})
	}
	s.Apps[0].Clusters[3].Findings = append(s.Apps[0].Clusters[3].Findings, "a field is left out")
	s.Clusters = []v2.ClusterStatus{{Provider: "edge", Cluster: "c1", Findings: []string{"rename one"}}}
	want := []string{"app web on edge+c00 (and 29 more): rename one", "app web on edge+c03: a field is left out", "edge+c1: rename one"}
	if got := progress.Findings(s); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// The tree shows the findings of a cluster next to what is wrong with it.
func TestF52TreeShowsFindingsOfASilentCluster(t *testing.T) {
	t.Parallel()
	object := v2.ResourceStatus{GVK: v2.GVK{Kind: "ConfigMap"}, Name: "cm", ReadyStatus: progress.Unknown, Reason: "has not reported"}
	for _, tt := range []struct {
		c    v2.ClusterStatus
		want string
	}{
		{v2.ClusterStatus{Error: "no room"}, "no room; rename one"},
		{v2.ClusterStatus{Resources: []v2.ResourceStatus{object, object}}, "has not reported; rename one"},
		{v2.ClusterStatus{}, "rename one"},
	} {
		tt.c.Findings = []string{"rename one"}
		got := progress.Tree(v2.Status{Apps: []v2.AppStatus{{Clusters: []v2.ClusterStatus{tt.c}}}}).Below[0].Below[0].Why
		if got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
