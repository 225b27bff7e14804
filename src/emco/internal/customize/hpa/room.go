package hpa

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/kubehealth/capacity"
)

// podsOfNode is the resource for the number of pods: each pod takes one.
const podsOfNode = "pods"

// workloadPods are the pods of a workload.
type workloadPods struct {
	workload string
	count    int
	requests map[string]int64 // of each pod, by resource, in the units of status.NodeResource
}

// text describes what each pod requests.
func (p workloadPods) text() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(p.requests)) {
		out = append(out, capacity.Quantity(name, uint64(p.requests[name]))+" "+name)
	}
	return strings.Join(out, " and ")
}

// nodeGroup is a number of nodes that have the same amounts free.
type nodeGroup struct {
	count int
	only  string
	free  map[string]int64
}

// takes returns how many of the pods one node has room for.
func (n nodeGroup) takes(p workloadPods) int {
	if n.only != "" && p.requests[n.only] == 0 {
		return 0
	}
	most := int64(p.count)
	for name, request := range p.requests {
		if request > 0 {
			most = min(most, n.free[name]/request)
		}
	}
	if free, limited := n.free[podsOfNode]; limited {
		most = min(most, free)
	}
	return int(most)
}

// without returns the node after it took some of the pods.
func (n nodeGroup) without(p workloadPods, taken int) nodeGroup {
	n.free = maps.Clone(n.free)
	for name, request := range p.requests {
		n.free[name] -= request * int64(taken)
	}
	if _, limited := n.free[podsOfNode]; limited {
		n.free[podsOfNode] -= int64(taken)
	}
	return n
}

// place puts at most some number of the pods on the nodes. It returns the nodes afterwards.
func (n nodeGroup) place(p workloadPods, most int) (after []nodeGroup, placed int) {
	each := n.takes(p)
	for each > 0 && n.count > 0 && placed < most {
		taken := min(each, most-placed)
		busy := n.without(p, taken)
		busy.count = min(n.count, (most-placed)/taken)
		after = append(after, busy)
		n.count -= busy.count
		placed += busy.count * taken
	}
	if n.count > 0 {
		after = append(after, n)
	}
	return after, placed
}

// shortage places pods on the nodes of a cluster, one workload after the other, and returns why they do not fit; empty if
// they do. Pods with more requests come first, and nodes with fewer resources, so that special nodes stay free.
func shortage(c status.Capacity, all []workloadPods) string {
	if !c.Known() {
		return "it is not known what is free: " + cmp.Or(c.Problem, "no report says it")
	}
	left := make([]nodeGroup, 0, len(c.Classes))
	for _, class := range slices.Backward(c.Classes) {
		n := nodeGroup{count: class.Count, only: class.Only, free: map[string]int64{}}
		for _, r := range class.Resources {
			n.free[r.Name] = int64(r.Free)
		}
		left = append(left, n)
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b workloadPods) int {
		return cmp.Or(cmp.Compare(len(b.requests), len(a.requests)), cmp.Compare(b.requests["cpu"], a.requests["cpu"]),
			cmp.Compare(b.requests["memory"], a.requests["memory"]), cmp.Compare(a.workload, b.workload))
	})
	for _, p := range all {
		placed, with := 0, 0
		var next []nodeGroup
		for _, n := range left {
			if n.takes(p) > 0 {
				with += n.count
			}
			after, some := n.place(p, p.count-placed)
			next, placed = append(next, after...), placed+some
		}
		if placed < p.count {
			return lack(c, p, placed, with)
		}
		left = next
	}
	return ""
}

// lack describes pods that do not fit.
func lack(c status.Capacity, p workloadPods, placed, with int) string {
	out := fmt.Sprintf("%d of %d nodes have %s free", with, c.Nodes, p.text())
	if placed == 0 {
		out = fmt.Sprintf("none of %d nodes has %s free", c.Nodes, p.text())
	}
	out += fmt.Sprintf(", with room for %d of the %d pods of %s", placed, p.count, p.workload)
	if c.Cut > 0 {
		out += fmt.Sprintf("; its report leaves out %d nodes", c.Cut)
	}
	return out
}
