package orchestrator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

func configMap(name string) manifest.ID {
	return manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: name}
}

// viewed is a view of app "a", whose bundle has the config maps one and two.
func viewed(q query, pairs ...appcontext.Pair) view {
	s := desired("a")
	for _, p := range pairs {
		s = s.with("a", p)
	}
	refs := []appcontext.Ref{{ID: configMap("one")}, {ID: configMap("two")}}
	return view{situation: s, query: q, bundles: map[appcontext.Digest]appcontext.Bundle{"new": {Objects: refs}}}
}

func (v view) reported(list ...appcontext.ResourceStatus) view {
	v.reports = map[appcontext.PairKey]appcontext.Report{keyOf("a"): {Key: keyOf("a"), Resources: list}}
	return v
}

// short is an answer in one line: counts, then clusters with their resources.
func short(st v2.Status) string {
	counts := fmt.Sprint(st.DeployedCounts, st.ReadyCounts, st.RsyncCounts, st.ClusterCounts)
	var out []string
	for _, a := range st.Apps {
		for _, c := range a.Clusters {
			for _, r := range c.Resources {
				out = append(out, r.Name+" "+r.DeployedStatus+r.ReadyStatus+r.RsyncStatus+r.ClusterStatus)
			}
		}
	}
	return strings.Join(strings.Fields(strings.ReplaceAll(counts, "map[]", "")+" "+strings.Join(out, ", ")), " ")
}

func TestViews(t *testing.T) {
	t.Parallel()
	applied := appcontext.Pair{Rev: 2, Desired: "new", Applied: "new", Phase: appcontext.Applied}
	current := func(name, status string) appcontext.ResourceStatus {
		return appcontext.ResourceStatus{ID: configMap(name), Status: status, Reason: "so"}
	}
	moved := current("two", "Current")
	moved.Version = "v2" // clusters may report another version of the same object
	deployed, ready := query{}, query{ready: true}
	gone := func(v view) view {
		v.head.Gone = true
		return v
	}
	failing := func(v view) view {
		v.rev.Apps = append(v.rev.Apps, appcontext.App{Name: "b", Failure: &appcontext.Failure{Reason: "why"}})
		return v
	}
	tests := []struct {
		name string
		v    view
		want string
		sum  string // readyStatus
	}{
		{"no pair yet", viewed(deployed), "map[Pending:2] one Pending, two Pending", ""},
		{"applied", viewed(deployed, applied), "map[Applied:2] one Applied, two Applied", ""},
		{"failed", viewed(deployed, appcontext.Pair{Rev: 2, Phase: appcontext.Failed}), "map[Failed:2] one Failed, two Failed", ""},
		{"what is to be removed is still there", gone(viewed(deployed, appcontext.Pair{Rev: 2, Phase: appcontext.Deleting})), "map[Applied:2] one Applied, two Applied", ""},
		{"removed", gone(viewed(deployed)), "map[Deleted:2] one Deleted, two Deleted", ""},
		{"one resource", viewed(query{resources: map[string]bool{"two": true}}, applied), "map[Applied:1] two Applied", ""},
		{"another cluster", viewed(query{clusters: map[string]bool{"edge+c2": true}}, applied), "", ""},
		{"summary keeps the counts", viewed(query{output: "summary"}, applied), "map[Applied:2]", ""},

		{"nobody reported", viewed(ready, applied), "map[Unknown:2] one Unknown, two Unknown", "Unknown"},
		{"all is well", viewed(ready, applied).reported(current("one", "Current"), moved), "map[Ready:2] one Ready, two Ready", "Ready"},
		{"one is not there", viewed(ready, applied).reported(current("one", "Current")), "map[NotPresent:1 Ready:1] one Ready, two NotPresent", "NotReady"},
		{"one is away", viewed(ready, applied).reported(current("one", "Current"), current("two", "NotFound")), "map[NotPresent:1 Ready:1] one Ready, two NotPresent", "NotReady"},
		{"one is on its way", viewed(ready, applied).reported(current("one", "InProgress"), moved), "map[NotReady:1 Ready:1] one NotReady, two Ready", "NotReady"},
		{"one failed", viewed(ready, applied).reported(current("one", "Failed"), moved), "map[NotReady:1 Ready:1] one NotReady, two Ready", "NotReady"},
		{"one cannot be told", viewed(ready, applied).reported(current("one", "Unknown"), moved), "map[Ready:1 Unknown:1] one Unknown, two Ready", "Unknown"},
		{"nothing passes the filters", viewed(query{ready: true, resources: map[string]bool{"x": true}}, applied), "", "Unknown"},
		{"another app could not be rendered", failing(viewed(ready, applied).reported(current("one", "Current"), moved)), "map[Ready:2] one Ready, two Ready", "NotReady"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var st v2.Status
			if err := tt.v.write(&st); err != nil {
				t.Fatal(err)
			}
			if got := short(st); got != tt.want || st.ReadyStatus != tt.sum {
				t.Errorf("got  %s, readyStatus %q\nwant %s, readyStatus %q", got, st.ReadyStatus, tt.want, tt.sum)
			}
		})
	}
}

func TestViewsNameUnknownApps(t *testing.T) {
	t.Parallel()
	err := viewed(query{apps: map[string]bool{"a": true, "b": true}}).write(&v2.Status{})
	if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), `no app "b"`) {
		t.Errorf("got %v", err)
	}
}

func TestConnectivity(t *testing.T) {
	t.Parallel()
	pair := func(phase appcontext.Phase, commit string) []appcontext.Pair {
		return []appcontext.Pair{{Rev: 2, Phase: phase, Commit: commit, Applied: "new", Error: "why"}}
	}
	for _, tt := range []struct {
		name     string
		pairs    []appcontext.Pair
		heard    bool
		want     string
		revision int64
	}{
		{"nothing is known", nil, false, "Unknown", 0},
		{"in Git, and nobody reports", pair(appcontext.Applied, "c0ffee"), false, "Unknown", 2},
		{"in Git, and it reports", pair(appcontext.Applied, "c0ffee"), true, "Available", 2},
		{"the cluster itself took it", pair(appcontext.Applied, ""), false, "Available", 2},
		{"it cannot be reached now", pair(appcontext.Retrying, ""), true, "Retrying", 0},
		{"it refused", pair(appcontext.Failed, ""), false, "Unknown", 0},
	} {
		v := viewed(query{ready: tt.heard}, tt.pairs...)
		if tt.heard {
			v = v.reported()
		}
		c := v.cluster("a", placed{"edge+c1", "new"}, map[string]int{})
		if c.Connectivity != tt.want || c.Revision != tt.revision || c.Provider != "edge" || c.Cluster != "c1" {
			t.Errorf("%s: got %+v, want %s and revision %d", tt.name, c, tt.want, tt.revision)
		}
		if v.legacy = true; v.cluster("a", placed{"edge+c1", "new"}, map[string]int{}).ReadyStatus != tt.want {
			t.Errorf("%s: the deprecated view says something else", tt.name)
		}
	}
}

func TestFailedAppsAreShownWithoutClusters(t *testing.T) {
	t.Parallel()
	v := viewed(query{})
	v.rev.Apps = append(v.rev.Apps, appcontext.App{
		Name: "b", Findings: []string{"look"},
		Failure: &appcontext.Failure{Stage: "rendering", File: "templates/x.yaml:3", Reason: "has no name"},
	})
	var st v2.Status
	if err := v.write(&st); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(st.Apps, func(a v2.AppStatus) bool { return a.Name == "b" })
	if i < 0 || *st.Apps[i].Failure != (v2.AppFailure{Stage: "rendering", File: "templates/x.yaml:3", Reason: "has no name"}) || len(st.Apps[i].Findings) != 1 {
		t.Errorf("got %+v", st.Apps)
	}
}
