package status_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/status"
)

func nodes(count int, resources ...status.NodeResource) status.NodeClass {
	return status.NodeClass{Count: count, Resources: resources}
}

func TestCapacityIsPartOfAReport(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Capacity = status.Capacity{Nodes: 3, Cut: 1, Classes: []status.NodeClass{nodes(2, status.NodeResource{Name: "cpu", Allocatable: 4000, Free: 1500})}}
	text, err := status.Encode(r, 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := status.Decode(text)
	if err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("Decode = %+v, %v, want %+v", got.Capacity, err, r.Capacity)
	}
	without, err := status.Encode(sample(), 0)
	if err != nil || strings.Contains(string(without), "capacity") {
		t.Errorf("a report without capacity names it: %s, %v", without, err)
	}
	if c := got.Capacity.Clone(); !reflect.DeepEqual(c, got.Capacity) || &c.Classes[0].Resources[0] == &got.Capacity.Classes[0].Resources[0] {
		t.Errorf("Clone = %+v", c)
	}
}

// What an agent claims is bounded, and what cannot be is counted as cut.
func TestImpossibleNodesAreCut(t *testing.T) {
	t.Parallel()
	r := sample()
	cpu := status.NodeResource{Name: "cpu", Allocatable: 4000, Free: 4000}
	for name, bad := range map[string]status.NodeClass{
		"a name with a line break": nodes(5, status.NodeResource{Name: "cpu\n"}),
		"a resource twice":         nodes(5, cpu, cpu),
		"an odd only":              {Count: 5, Only: "a b", Resources: []status.NodeResource{cpu}},
		"too many resources": nodes(5, func() (out []status.NodeResource) {
			for i := range status.MaxNodeResources + 1 {
				out = append(out, status.NodeResource{Name: fmt.Sprintf("r%02d", i)})
			}
			return out
		}()...),
	} {
		r.Capacity = status.Capacity{Nodes: 7, Classes: []status.NodeClass{bad, nodes(2, cpu)}}
		if got := decoded(t, r).Capacity; got.Cut != 5 || len(got.Classes) != 1 || got.Classes[0].Count != 2 {
			t.Errorf("%s: %+v, want it cut", name, got)
		}
	}
	r.Capacity = status.Capacity{Nodes: -1, Cut: 1 << 30, Problem: strings.Repeat("x", 1000)}
	for range status.MaxNodeClasses + 3 {
		r.Capacity.Classes = append(r.Capacity.Classes, nodes(1, status.NodeResource{Name: "memory", Allocatable: 1 << 60, Free: 1 << 61}))
	}
	got := decoded(t, r).Capacity
	if got.Nodes != 0 || got.Cut != 1<<20 || len(got.Problem) != status.MaxReason || len(got.Classes) != status.MaxNodeClasses {
		t.Errorf("%d nodes, %d cut, %d bytes, %d classes", got.Nodes, got.Cut, len(got.Problem), len(got.Classes))
	}
	if m := got.Classes[0].Resources[0]; m.Allocatable != 1<<53 || m.Free != 1<<53 {
		t.Errorf("memory %+v, want it limited", m)
	}
}

// Objects of apps matter more than classes of nodes: these leave a quarter of the limit to themselves at most.
func TestNodesLeaveRoomForApps(t *testing.T) {
	t.Parallel()
	r := sample()
	for i := range status.MaxNodeClasses {
		r.Capacity.Nodes++
		r.Capacity.Classes = append(r.Capacity.Classes, nodes(1, status.NodeResource{Name: "cpu", Allocatable: 4000, Free: uint64(4000 - i)}))
	}
	const limit = 2400
	text, err := status.Encode(r, limit)
	if err != nil {
		t.Fatal(err)
	}
	got, err := status.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.Capacity.Classes); len(text) > limit || !reflect.DeepEqual(got.Apps, sample().Apps) || n == 0 || got.Capacity.Cut != status.MaxNodeClasses-n || got.Capacity.Classes[0].Resources[0].Free != 4000 {
		t.Errorf("%d bytes of %d have the apps %+v, %d classes, and %d nodes are cut", len(text), limit, got.Apps, n, got.Capacity.Cut)
	}
}

// Several goroutines may encode the same report.
func TestEncodeDoesNotChangeTheCapacity(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Capacity = status.Capacity{Nodes: 1, Classes: []status.NodeClass{nodes(1, status.NodeResource{Name: "memory", Allocatable: 1 << 60, Free: 1 << 61})}}
	if _, err := status.Encode(r, 0); err != nil {
		t.Fatal(err)
	}
	if m := r.Capacity.Classes[0].Resources[0]; m.Allocatable != 1<<60 || m.Free != 1<<61 {
		t.Errorf("the report has %+v afterwards", m)
	}
}

func decoded(t *testing.T, r status.Report) status.Report {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := status.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
