package hpa_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/hpa"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
)

const gib = 1 << 30

// class is nodes with this much cpu, memory and GPUs free.
func class(count int, cpu, memory, gpu uint64) status.NodeClass {
	c := status.NodeClass{Count: count, Resources: []status.NodeResource{
		{Name: "cpu", Allocatable: 8000, Free: cpu}, {Name: "memory", Allocatable: 64 * gib, Free: memory}, {Name: "nvidia.com/gpu", Allocatable: 8, Free: gpu}, {Name: "pods", Allocatable: 110, Free: 5},
	}}
	if gpu == 0 {
		c.Resources = slices.Delete(c.Resources, 2, 3)
	}
	return c
}

// reported is what clusters report, and which of them were asked for.
type reported struct {
	nodes map[v2.ClusterKey]status.Capacity
	asked [][]v2.ClusterKey
}

func (r *reported) of(_ context.Context, clusters []v2.ClusterKey) (map[v2.ClusterKey]status.Capacity, error) {
	r.asked = append(r.asked, clusters)
	return r.nodes, nil
}

var two = fleet{{Provider: "p", Name: "a"}, {Provider: "p", Name: "b"}}

// decide places app web on one of two clusters.
func decide(t *testing.T, h hpa.Controller, d placement.Deployment) (placement.Decision, error) {
	t.Helper()
	demands, err := h.Demands(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return placement.Decide(t.Context(), placement.Request{
		App: "web", Inventory: d.Inventory, Facts: factsOf, Preference: placement.Preference{Scorers: demands["web"].Scorers},
		Intent: placement.Intent{AnyOf: []placement.Selector{{Provider: "p", Labels: []string{"all"}}}},
	}, demands["web"].Filters)
}

func TestNodesMustHaveRoomForEachPod(t *testing.T) {
	t.Parallel()
	cpu := func(n int) string {
		return fmt.Sprintf(`{"allocatable":true,"mandatory":true,"resource":{"name":"cpu","requests":%d}}`, n)
	}
	memory := func(n int) string {
		return fmt.Sprintf(`{"allocatable":true,"mandatory":true,"resource":{"name":"memory","requests":%d,"units":"Gi"}}`, n)
	}
	const gpu = `{"allocatable":true,"mandatory":true,"resource":{"name":"nvidia.com/gpu","requests":4}}`
	reserved := class(1, 8000, 64*gib, 8)
	reserved.Only = "nvidia.com/gpu"
	for name, tt := range map[string]struct {
		nodes status.Capacity
		needs []string // of each of two pods
		want  string   // why the cluster is left out; empty if it is not
	}{
		"each on a node":               {status.Capacity{Nodes: 2, Classes: []status.NodeClass{class(2, 4000, 8*gib, 0)}}, []string{cpu(4), memory(8)}, ""},
		"both on one node":             {status.Capacity{Nodes: 1, Classes: []status.NodeClass{class(1, 8000, 16*gib, 0)}}, []string{cpu(4), memory(8)}, ""},
		"one node of three has room":   {status.Capacity{Nodes: 3, Classes: []status.NodeClass{class(1, 4000, 8*gib, 0), class(2, 3000, 8*gib, 0)}}, []string{cpu(4)}, "1 of 3 nodes have 4 cpu free, with room for 1 of the 2 pods of r1-web (hpa)"},
		"the sum is there, on no node": {status.Capacity{Nodes: 8, Classes: []status.NodeClass{class(8, 1000, 8*gib, 0)}}, []string{cpu(4)}, "none of 8 nodes has 4 cpu free, with room for 0 of the 2 pods of r1-web (hpa)"},
		"resources on different nodes": {status.Capacity{Nodes: 4, Classes: []status.NodeClass{class(2, 8000, gib, 0), class(2, 1000, 64*gib, 0)}}, []string{cpu(4), memory(8)}, "none of 4 nodes has 4 cpu and 8Gi memory free, with room for 0 of the 2 pods of r1-web (hpa)"},
		"what the report leaves out":   {status.Capacity{Nodes: 40, Cut: 8, Classes: []status.NodeClass{class(1, 4000, 8*gib, 0)}}, []string{cpu(4)}, "1 of 40 nodes have 4 cpu free, with room for 1 of the 2 pods of r1-web; its report leaves out 8 nodes (hpa)"},
		"devices":                      {status.Capacity{Nodes: 2, Classes: []status.NodeClass{class(1, 8000, 64*gib, 8), class(1, 8000, 64*gib, 0)}}, []string{gpu, cpu(4)}, ""},
		"too few devices":              {status.Capacity{Nodes: 2, Classes: []status.NodeClass{class(1, 8000, 64*gib, 7), class(1, 8000, 64*gib, 0)}}, []string{gpu}, "1 of 2 nodes have 4 nvidia.com/gpu free, with room for 1 of the 2 pods of r1-web (hpa)"},
		"nodes for devices only":       {status.Capacity{Nodes: 1, Classes: []status.NodeClass{reserved}}, []string{cpu(1)}, "none of 1 nodes has 1 cpu free, with room for 0 of the 2 pods of r1-web (hpa)"},
		"pods that want the devices":   {status.Capacity{Nodes: 1, Classes: []status.NodeClass{reserved}}, []string{cpu(1), gpu}, ""},
		"nothing is known":             {status.Capacity{Problem: "its monitor is silent"}, []string{cpu(1)}, "it is not known what is free: its monitor is silent (hpa)"},
		"no answer":                    {status.Capacity{}, []string{cpu(1)}, "it is not known what is free: no report says it (hpa)"},
	} {
		db := newStore(t)
		for i, spec := range tt.needs {
			need(t, db, fmt.Sprintf("n%d", i), spec)
		}
		r := &reported{nodes: map[v2.ClusterKey]status.Capacity{"p+a": tt.nodes, "p+b": {Nodes: 2, Classes: []status.NodeClass{class(2, 8000, 64*gib, 8)}}}}
		d, err := decide(t, hpa.New(db, r.of), deploymentOf(two))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got string
		want := []v2.ClusterKey{"p+a"}
		if tt.want != "" {
			want = []v2.ClusterKey{"p+b"}
		}
		for _, v := range d.Refused {
			got = v.Reason
		}
		if got != tt.want || !slices.Equal(d.Clusters, want) {
			t.Errorf("%s: on %v, %q; want %v, %q", name, d.Clusters, got, want, tt.want)
		}
		if len(r.asked) != 1 || !slices.Equal(r.asked[0], []v2.ClusterKey{"p+a", "p+b"}) {
			t.Errorf("%s: asked %v, want both clusters at once", name, r.asked)
		}
	}
}

// A need that overflows int64 fits nowhere.
func TestNumbersOfNeedsDoNotRunOver(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{`"name":"cpu"`, `"name":"memory","units":"Ti"`} {
		db := newStore(t)
		need(t, db, "most", fmt.Sprintf(`{"allocatable":true,"mandatory":true,"resource":{%s,"requests":%d}}`, resource, math.MaxInt64))
		r := &reported{nodes: map[v2.ClusterKey]status.Capacity{"p+a": {Nodes: 2, Classes: []status.NodeClass{class(2, 8000, 64*gib, 0)}}}}
		if d, err := decide(t, hpa.New(db, r.of), deploymentOf(two[:1])); err == nil || !strings.Contains(err.Error(), "none of 2 nodes has") {
			t.Errorf("%s: on %v, %v", resource, d.Clusters, err)
		}
	}
}

// Workloads of an app share the nodes: what one takes is not free for the next.
func TestWorkloadsShareNodes(t *testing.T) {
	t.Parallel()
	db := newStore(t) // two pods of r1-web
	need(t, db, "cpu", `{"allocatable":true,"mandatory":true,"resource":{"name":"cpu","requests":3}}`)
	put(t, db, intent+"/hpa-resource-consumers/sidecar", `{"apiVersion":"apps/v1","kind":"Deployment","name":"r1-web","replicas":2,"container":"proxy"}`)
	put(t, db, intent+"/hpa-resource-consumers/sidecar/resource-requirements/cpu", `{"allocatable":true,"mandatory":true,"resource":{"name":"cpu","requests":1}}`)
	put(t, db, intent+"/hpa-resource-consumers/db", `{"apiVersion":"apps/v1","kind":"StatefulSet","name":"r1-db","container":"pg"}`)
	put(t, db, intent+"/hpa-resource-consumers/db/resource-requirements/cpu", `{"allocatable":true,"mandatory":true,"resource":{"name":"cpu","requests":2}}`)
	for free, want := range map[uint64]string{ // pods of 4, 4 and 2 cores on two nodes
		6000: "",
		5000: "none of 2 nodes has 2 cpu free, with room for 0 of the 1 pods of r1-db (hpa)",
		3000: "none of 2 nodes has 4 cpu free, with room for 0 of the 2 pods of r1-web (hpa)",
	} {
		r := &reported{nodes: map[v2.ClusterKey]status.Capacity{"p+a": {Nodes: 2, Classes: []status.NodeClass{class(2, free, 8*gib, 0)}}}}
		_, err := decide(t, hpa.New(db, r.of), deploymentOf(two[:1]))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d free: %v, want %q", free, err, want)
		}
	}
}

// An app stays where it runs: its own pods take what is no longer free.
func TestWhatRunsIsNotComparedAgain(t *testing.T) {
	t.Parallel()
	db := newStore(t)
	need(t, db, "cpu", `{"allocatable":true,"mandatory":true,"resource":{"name":"cpu","requests":4}}`)
	need(t, db, "wish", `{"allocatable":true,"resource":{"name":"memory","requests":8,"units":"Gi"}}`)
	full := status.Capacity{Nodes: 1, Classes: []status.NodeClass{class(1, 0, 0, 0)}}
	r := &reported{nodes: map[v2.ClusterKey]status.Capacity{"p+a": full, "p+b": full}}
	d, err := decide(t, hpa.New(db, r.of), deploymentOf(two, "p+b"))
	if err != nil || !slices.Equal(d.Clusters, []v2.ClusterKey{"p+b"}) || d.Scores["p+b"] != 1 {
		t.Errorf("%+v, %v", d, err)
	}
}

// A need that is not mandatory compares clusters, and leaves none out.
func TestWishedRoomIsAPreference(t *testing.T) {
	t.Parallel()
	db := newStore(t)
	need(t, db, "wish", `{"allocatable":true,"weight":3,"resource":{"name":"cpu","requests":4}}`)
	r := &reported{nodes: map[v2.ClusterKey]status.Capacity{"p+a": {Nodes: 1, Classes: []status.NodeClass{class(1, 5000, 0, 0)}}, "p+b": {Nodes: 1, Classes: []status.NodeClass{class(1, 8000, 0, 0)}}}}
	d, err := decide(t, hpa.New(db, r.of), deploymentOf(two))
	if err != nil || !slices.Equal(d.Clusters, []v2.ClusterKey{"p+b"}) || len(d.Spared) != 1 || !strings.Contains(d.Why["p+b"], "room for cpu 1") {
		t.Errorf("%+v, %v", d, err)
	}
	r.nodes = map[v2.ClusterKey]status.Capacity{}
	if d, err = decide(t, hpa.New(db, r.of), deploymentOf(two)); err != nil || !strings.Contains(d.Why["p+a"], "room for cpu unknown") {
		t.Errorf("%+v, %v", d, err)
	}
}

// Clusters are asked only for resources without a key-value pair, and not at all where only documents count.
func TestKeyValuePairsComeFirst(t *testing.T) {
	t.Parallel()
	large := fleet{three[1]} // its pairs have 8 cpu and 4Gi
	for name, tt := range map[string]struct {
		need      string
		only      bool
		asked     int
		momentary bool
	}{
		"pairs for all":  {`{"allocatable":false,"resource":{"key":"x"}}`, false, 0, false},
		"one is missing": {`{"allocatable":true,"mandatory":true,"resource":{"name":"nvidia.com/gpu","requests":1}}`, false, 1, true},
		"documents only": {`{"allocatable":true,"mandatory":true,"resource":{"name":"nvidia.com/gpu","requests":1}}`, true, 0, true},
	} {
		db := newStore(t)
		need(t, db, "cpu", `{"allocatable":true,"mandatory":true,"resource":{"name":"cpu","requests":4}}`)
		need(t, db, "memory", `{"allocatable":true,"mandatory":true,"resource":{"name":"memory","requests":1,"units":"Gi"}}`)
		need(t, db, "more", tt.need)
		r := &reported{nodes: map[v2.ClusterKey]status.Capacity{"p+large": {Nodes: 1, Classes: []status.NodeClass{class(1, 0, 0, 2)}}}}
		d := deploymentOf(large)
		d.DocumentsOnly = tt.only
		demands, err := hpa.New(db, r.of).Demands(t.Context(), d)
		if err != nil || len(r.asked) != tt.asked || demands["web"].Momentary != tt.momentary {
			t.Errorf("%s: asked %v, momentary %v, %v", name, r.asked, demands["web"].Momentary, err)
		}
		if v, err := demands["web"].Filters[0].Admit(t.Context(), placement.Request{Facts: factsOf}, large[0]); err != nil || v.Admitted == tt.only {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
}

func TestFailuresOfReportsArePassedOn(t *testing.T) {
	t.Parallel()
	db := newStore(t)
	need(t, db, "cpu", `{"allocatable":true,"mandatory":true,"resource":{"name":"cpu","requests":4}}`)
	h := hpa.New(db, func(context.Context, []v2.ClusterKey) (map[v2.ClusterKey]status.Capacity, error) {
		return nil, errors.New("etcd does not answer")
	})
	if _, err := h.Demands(t.Context(), deploymentOf(two)); err == nil || !strings.Contains(err.Error(), "etcd does not answer") {
		t.Errorf("Demands = %v", err)
	}
}
