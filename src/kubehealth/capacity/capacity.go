// Package capacity summarizes what the nodes of a cluster have free: their allocatable resources
// minus the requests of the pods on them. The control plane uses it for clusters that it reaches
// directly, the monitor for the cluster that it runs on, so both give the same answer.
//
//	nodes, pods ──► Snapshot ──► Capacity of package status
//
// A node counts if it takes new pods: it is ready, not cordoned, not being deleted, and has no taint that keeps pods
// away. One exception: if all its taints of that kind name one resource that it has, as on GPU nodes, it counts for
// pods that request that resource.
package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/emco-orchestrator/emco/src/api/status"
)

// Snapshot is the nodes of a cluster at a moment. The zero Snapshot has none.
type Snapshot struct {
	total int             // nodes of the cluster
	nodes map[string]node // those that take new pods, by name
}

// node is what a node has, exactly.
type node struct {
	only string
	has  amounts // allocatable
	used amounts // by the pods on it
}

// amounts are numbers of resources, in the units of status.NodeResource.
type amounts map[corev1.ResourceName]int64

func amountsOf(list corev1.ResourceList) amounts {
	out := make(amounts, len(list))
	for name, q := range list {
		out[name] = Amount(string(name), q)
	}
	return out
}

// largest bounds amounts, and sums of them, far below the end of the numbers.
const largest = 1 << 60

// Amount returns a quantity in the unit that status.NodeResource has for the resource, but not less than 0 and not more than
// 1<<60, which no node has.
func Amount(name string, q resource.Quantity) int64 {
	thousandths := name == string(corev1.ResourceCPU)
	switch {
	case q.Sign() < 0:
		return 0
	case thousandths && q.CmpInt64(largest/1000) <= 0:
		return q.MilliValue()
	case !thousandths && q.CmpInt64(largest) <= 0:
		return q.Value()
	}
	return largest
}

// Quantity returns an amount of a resource for people.
func Quantity(name string, amount uint64) string {
	n := int64(min(amount, 1<<62))
	switch {
	case name == string(corev1.ResourceCPU):
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	case inBytes(corev1.ResourceName(name)):
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return resource.NewQuantity(n, resource.DecimalSI).String()
}

func inBytes(name corev1.ResourceName) bool {
	return name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func (a amounts) add(b amounts) {
	for name, n := range b {
		a[name] = min(a[name]+n, largest)
	}
}

// raise makes each amount at least that of b.
func (a amounts) raise(b amounts) {
	for name, n := range b {
		a[name] = max(a[name], n)
	}
}

// AddNode adds a node. Add all nodes before the pods on them.
func (s *Snapshot) AddNode(n *corev1.Node) {
	s.total++
	only, open := admission(n)
	if !open {
		return
	}
	if s.nodes == nil {
		s.nodes = map[string]node{}
	}
	s.nodes[n.Name] = node{only: only, has: amountsOf(n.Status.Allocatable), used: amounts{}}
}

// admission reports whether a node takes new pods, and the resource that they must request; empty for any pod.
func admission(n *corev1.Node) (only string, open bool) {
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	if !ready || n.Spec.Unschedulable || n.DeletionTimestamp != nil {
		return "", false
	}
	for _, t := range n.Spec.Taints {
		if t.Effect != corev1.TaintEffectNoSchedule && t.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		if q := n.Status.Allocatable[corev1.ResourceName(t.Key)]; q.IsZero() || only != "" && only != t.Key {
			return "", false
		}
		only = t.Key
	}
	return only, true
}

// AddPod adds a pod. One that has ended, or has no node yet, takes nothing.
func (s *Snapshot) AddPod(p *corev1.Pod) {
	at, counts := s.nodes[p.Spec.NodeName]
	if !counts || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return
	}
	at.used.add(requests(&p.Spec))
	at.used[corev1.ResourcePods]++
}

// requests returns what the scheduler reserves for a pod: the most that its containers need at any
// time, and the overhead of its runtime. Init containers run one after the other, together with those that
// were started before and keep running. Requests of the pod as a whole replace those of its containers.
func requests(p *corev1.PodSpec) amounts {
	out, sidecars := amounts{}, amounts{}
	for _, c := range p.InitContainers {
		own := amountsOf(c.Resources.Requests)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars.add(own)
			out.raise(sidecars)
			continue
		}
		own.add(sidecars)
		out.raise(own)
	}
	running := sidecars
	for _, c := range p.Containers {
		running.add(amountsOf(c.Resources.Requests))
	}
	out.raise(running)
	if p.Resources != nil {
		for name, n := range amountsOf(p.Resources.Requests) {
			out[name] = n
		}
	}
	out.add(amountsOf(p.Overhead))
	return out
}

// Least returns the nodes of the last snapshot, with the least that each had free in any of the
// snapshots. So what is free rises only after it has been free for a while.
func Least(snapshots ...Snapshot) Snapshot {
	if len(snapshots) == 0 {
		return Snapshot{}
	}
	last := snapshots[len(snapshots)-1]
	out := Snapshot{total: last.total, nodes: make(map[string]node, len(last.nodes))}
	for name, n := range last.nodes {
		used := amounts{}
		used.add(n.used)
		for _, s := range snapshots {
			used.raise(s.nodes[name].used)
		}
		out.nodes[name] = node{only: n.only, has: n.has, used: used}
	}
	return out
}

// What is free is reported in parts of what is allocatable. Fewer parts give fewer classes.
const (
	finest   = 32
	coarsest = 4
)

// Capacity returns the classes of the nodes.
func (s Snapshot) Capacity() status.Capacity {
	out := status.Capacity{Nodes: s.total}
	for parts := int64(finest); ; parts /= 2 {
		out.Classes = s.classes(parts)
		if len(out.Classes) <= status.MaxNodeClasses || parts == coarsest {
			break
		}
	}
	for _, c := range out.Classes[min(len(out.Classes), status.MaxNodeClasses):] {
		out.Cut += c.Count
	}
	out.Classes = out.Classes[:min(len(out.Classes), status.MaxNodeClasses)]
	return out
}

// classes groups the nodes that are alike when their free amounts are rounded to so many parts.
func (s Snapshot) classes(parts int64) []status.NodeClass {
	byText := map[string]*status.NodeClass{}
	for _, n := range s.nodes {
		c := n.class(parts)
		key := fmt.Sprint(c.Only, c.Resources)
		if byText[key] == nil {
			byText[key] = &c
		}
		byText[key].Count++
	}
	keys := make([]string, 0, len(byText))
	for key := range byText {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		x, y := byText[a], byText[b]
		return cmp.Or(cmp.Compare(len(y.Resources), len(x.Resources)), cmp.Compare(freeOf(y, corev1.ResourceCPU), freeOf(x, corev1.ResourceCPU)),
			cmp.Compare(freeOf(y, corev1.ResourceMemory), freeOf(x, corev1.ResourceMemory)), cmp.Compare(a, b))
	})
	out := make([]status.NodeClass, len(keys))
	for i, key := range keys {
		out[i] = *byText[key]
	}
	return out
}

func freeOf(c *status.NodeClass, name corev1.ResourceName) uint64 {
	for _, r := range c.Resources {
		if r.Name == string(name) {
			return r.Free
		}
	}
	return 0
}

// standard are the resources that are reported first, of a node with very many.
var standard = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage}

// class returns the class of one node, without its count.
func (n node) class(parts int64) status.NodeClass {
	var names []corev1.ResourceName
	for name, has := range n.has {
		if has > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b corev1.ResourceName) int {
		return cmp.Or(-cmp.Compare(slices.Index(standard, a), slices.Index(standard, b)), cmp.Compare(a, b))
	})
	names = names[:min(len(names), status.MaxNodeResources)]
	slices.Sort(names)
	out := status.NodeClass{Only: n.only}
	for _, name := range names {
		has := even(name, n.has[name])
		part := (has + parts - 1) / parts
		free := min(max(n.has[name]-n.used[name], 0), has)
		if free < has {
			free -= free % part
		}
		out.Resources = append(out.Resources, status.NodeResource{Name: string(name), Allocatable: uint64(has), Free: uint64(free)})
	}
	return out
}

// even rounds bytes down, because nodes of one type differ by a few.
func even(name corev1.ResourceName, n int64) int64 {
	const step = 64 << 20
	if inBytes(name) && n >= 16*step {
		return n - n%step
	}
	return n
}
