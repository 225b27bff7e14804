package status

import (
	"slices"
	"strings"
)

// Capacity is what the nodes of a cluster have free, so that "N pods that request X fit" can be
// answered. Nodes that are alike are one class. What is free is rounded down, so a pod that fits by
// a Capacity fits, until something else takes the place.
type Capacity struct {
	Nodes   int         `json:"nodes,omitempty"`   // of the cluster
	Classes []NodeClass `json:"classes,omitempty"` // of nodes that take new pods; those with the most room first
	Cut     int         `json:"cut,omitempty"`     // nodes that take new pods and are in no class: there are too many classes
	Problem string      `json:"problem,omitempty"` // why nothing is known; then all other members are empty
}

// NodeClass is nodes that have the same resources, and the same part of them free.
type NodeClass struct {
	Count     int            `json:"count"`
	Only      string         `json:"only,omitempty"` // the nodes take only pods that request this resource
	Resources []NodeResource `json:"resources"`      // in order of their names
}

// NodeResource is a resource of each node of a class: cpu in thousandths of a core, memory and
// ephemeral-storage in bytes, and all others by number.
type NodeResource struct {
	Name        string `json:"name"`
	Allocatable uint64 `json:"allocatable"`
	Free        uint64 `json:"free"`
}

// Limits of a Capacity.
const (
	MaxNodeClasses   = 32
	MaxNodeResources = 16
	maxNodes         = 1 << 20
	maxAmount        = 1 << 53 // of a resource: larger numbers are not exact in JSON
)

// Known reports whether the cluster reports its nodes.
func (c Capacity) Known() bool { return c.Nodes > 0 }

// Clone returns a copy that shares no memory with c.
func (c Capacity) Clone() Capacity {
	c.Problem = strings.Clone(c.Problem)
	c.Classes = slices.Clone(c.Classes)
	for i, class := range c.Classes {
		class.Only = strings.Clone(class.Only)
		class.Resources = slices.Clone(class.Resources)
		for k := range class.Resources {
			class.Resources[k].Name = strings.Clone(class.Resources[k].Name)
		}
		c.Classes[i] = class
	}
	return c
}

// cleanCapacity returns a copy within the limits. A class that cannot exist is left out; its nodes are counted as cut.
func cleanCapacity(c Capacity) Capacity {
	out := Capacity{Nodes: limited(c.Nodes), Cut: limited(c.Cut), Problem: printable(c.Problem, MaxReason)}
	for _, class := range c.Classes {
		class.Count = limited(class.Count)
		if len(out.Classes) == MaxNodeClasses || !soundClass(&class) {
			out.Cut = limited(out.Cut + class.Count)
			continue
		}
		out.Classes = append(out.Classes, class)
	}
	return out
}

// cutClasses leaves out the classes with the least room until the rest takes at most limit bytes.
func cutClasses(c Capacity, limit int) Capacity {
	for n := len(c.Classes) - 1; n >= 0 && size(c) > limit; n-- {
		c.Cut = limited(c.Cut + c.Classes[n].Count)
		c.Classes = c.Classes[:n]
	}
	return c
}

func limited(nodes int) int { return min(max(nodes, 0), maxNodes) }

// soundClass reports whether a class of nodes can exist, and cuts its amounts to the limit, in a copy.
func soundClass(c *NodeClass) bool {
	if c.Count == 0 || len(c.Resources) > MaxNodeResources || c.Only != "" && !plain(c.Only, maxName+maxLabel) {
		return false
	}
	c.Resources = slices.Clone(c.Resources)
	for i := range c.Resources {
		r := &c.Resources[i]
		if !plain(r.Name, maxName+maxLabel) || i > 0 && r.Name <= c.Resources[i-1].Name {
			return false
		}
		r.Allocatable = min(r.Allocatable, maxAmount)
		r.Free = min(r.Free, r.Allocatable)
	}
	return true
}
