package customize

import (
	"encoding/binary"
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// Class is clusters of an app that get equal edits.
type Class struct {
	Clusters []v2.ClusterKey // sorted
	Edits    []Edit
}

// Classes divides the clusters of an app, which are sorted, by the edits that concern them. Each
// cluster is in one class. Classes are in order of their first clusters. If all clusters get
// equal edits, the one class has the given slice.
func Classes(app string, clusters []v2.ClusterKey, edits []Edit) []Class {
	var own []Edit
	divided := false
	for _, e := range edits {
		if e.App == app {
			own = append(own, e)
			divided = divided || e.Clusters != nil
		}
	}
	if !divided {
		return []Class{{Clusters: clusters, Edits: own}}
	}
	chosen := chosenEdits(own)
	var out []Class
	index := map[string]int{} // of classes, by the key of their edits
	for _, c := range clusters {
		picked := chosen[c]
		i, known := index[string(picked.key)]
		if !known {
			i = len(out)
			index[string(picked.key)] = i
			out = append(out, Class{Edits: pick(own, picked.edits)})
		}
		out[i].Clusters = append(out[i].Clusters, c)
	}
	if len(out) == 1 {
		out[0].Clusters = clusters
	}
	return out
}

// clusterEdits are the edits that name a cluster.
type clusterEdits struct {
	edits []int  // indexes
	key   []byte // equal for equal edits in the same order, also among those for all clusters
}

// chosenEdits returns the edits that name clusters, by cluster.
func chosenEdits(edits []Edit) map[v2.ClusterKey]clusterEdits {
	out := map[v2.ClusterKey]clusterEdits{}
	numbers := map[manifest.Digest]uint64{} // equal edits have one number
	general := uint64(0)                    // edits for all clusters so far
	for i, e := range edits {
		if e.Clusters == nil {
			general++
			continue
		}
		d := e.Digest()
		if _, known := numbers[d]; !known {
			numbers[d] = uint64(len(numbers))
		}
		for _, c := range e.Clusters {
			at := out[c]
			at.edits = append(at.edits, i)
			at.key = binary.AppendUvarint(binary.AppendUvarint(at.key, general), numbers[d])
			out[c] = at
		}
	}
	return out
}

// pick returns the edits for all clusters, and those with the given indexes, in order.
func pick(edits []Edit, indexes []int) (out []Edit) {
	for i, e := range edits {
		if e.Clusters == nil || slices.Contains(indexes, i) {
			out = append(out, e)
		}
	}
	return out
}

// Request returns the rendering that the class needs, made of that of the app without edits.
func (c Class) Request(base render.Request) render.Request {
	base.Overrides = slices.Clip(base.Overrides)
	for _, e := range c.Edits {
		base.Overrides = append(base.Overrides, e.Values...)
	}
	return base
}

// Encryption returns the edit that encrypts the Secrets of the class; nil if they are delivered as rendered. Who
// makes bundles carries it out, after the policies have seen the Secrets.
func (c Class) Encryption() *Edit {
	for i := range c.Edits {
		if c.Edits[i].Encryption != nil {
			return &c.Edits[i]
		}
	}
	return nil
}

// Digest identifies what the class's bundle is made of: the class of its rendering, and the
// edits after it.
func (c Class) Digest(rendering manifest.Digest) manifest.Digest {
	text := []byte(rendering)
	for _, e := range c.Edits {
		if e.Values == nil { // values are part of the rendering
			text = append(append(text, ' '), e.Digest()...)
		}
	}
	if len(text) == len(rendering) {
		return rendering
	}
	return manifest.DigestOf(text)
}
