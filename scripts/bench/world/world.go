// Package world is the desired state of a benchmark: apps on clusters, and changes of them. All peers
// get the same world and the same changes, already rendered.
package world

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
)

// Spec is the size of a world.
type Spec struct {
	Apps, Clusters, Resources int
	Bytes                     int  // approximate size of each manifest
	Shared                    bool // manifests do not name their cluster, so they are equal on all
}

// String names a spec in tables.
func (s Spec) String() string {
	kind := "unshared"
	if s.Shared {
		kind = "shared"
	}
	return fmt.Sprintf("%s, %d clusters x %d apps x %d", kind, s.Clusters, s.Apps, s.Resources)
}

// Kind is the scope of a change.
type Kind int

// The changes.
const (
	Install Kind = iota // everything is installed
	Value               // one value of one app, on all clusters: all its manifests change
	One                 // one manifest on one cluster
)

// Change is a change of the world.
type Change struct {
	Kind         Kind
	App, Cluster int // the changed ones: App for Value, both for One
}

// Pair is an app on a cluster: a folder with exactly these files.
type Pair struct {
	Cluster, App string
	Files        map[string][]byte // by name
}

// Dir is the folder of a pair.
func (p Pair) Dir() string { return "clusters/" + p.Cluster + "/" + p.App }

// State is the content of a branch: a digest by path.
type State map[string]string

// World is the current desired state. It is not safe for concurrent use.
type World struct {
	Spec   Spec
	values []int          // version of each app
	own    map[[2]int]int // further version of the first manifest of a pair
	pairs  []Pair         // by cluster, then by app; no files before Install
}

// New returns an empty world.
func New(s Spec) *World {
	return &World{Spec: s, values: make([]int, s.Apps), own: map[[2]int]int{}}
}

// Cluster is the name of a cluster.
func Cluster(i int) string { return fmt.Sprintf("g%04d", i) }

// App is the name of an app.
func App(i int) string { return fmt.Sprintf("app%02d", i) }

// Resource is the name of a manifest.
func Resource(i int) string { return fmt.Sprintf("r%02d", i) }

// Make carries out a change and returns the changed pairs.
func (w *World) Make(c Change) []Pair {
	switch c.Kind {
	case Install:
		w.pairs = make([]Pair, 0, w.Spec.Clusters*w.Spec.Apps)
		for i := range w.Spec.Clusters {
			for a := range w.Spec.Apps {
				w.pairs = append(w.pairs, w.render(i, a))
			}
		}
		return w.pairs
	case Value:
		w.values[c.App]++
		changed := make([]Pair, 0, w.Spec.Clusters)
		for i := range w.Spec.Clusters {
			changed = append(changed, w.replace(i, c.App))
		}
		return changed
	default:
		w.own[[2]int{c.Cluster, c.App}]++
		return []Pair{w.replace(c.Cluster, c.App)}
	}
}

// All returns all pairs.
func (w *World) All() []Pair { return w.pairs }

// Version of an app; each change of its value increments it.
func (w *World) Version(app int) int { return w.values[app] }

// Own lists the number of separate changes of each cluster.
func (w *World) Own() map[int]int {
	out := map[int]int{}
	for key, n := range w.own {
		out[key[0]] += n
	}
	return out
}

// Want returns the required content of a branch, by Git's object names.
func (w *World) Want() State {
	out := make(State, len(w.pairs)*w.Spec.Resources)
	for _, p := range w.pairs {
		for name, text := range p.Files {
			out[p.Dir()+"/"+name] = BlobID(text)
		}
	}
	return out
}

// BlobID is Git's object name of a content.
func BlobID(text []byte) string {
	sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(text)), text...))
	return hex.EncodeToString(sum[:])
}

func (w *World) replace(cluster, app int) Pair {
	p := w.render(cluster, app)
	w.pairs[cluster*w.Spec.Apps+app] = p
	return p
}

// render makes the manifests of a pair. In a shared world pairs with equal content share a map, like
// content that is rendered once.
func (w *World) render(cluster, app int) Pair {
	p := Pair{Cluster: Cluster(cluster), App: App(app)}
	own := w.own[[2]int{cluster, app}]
	if before := w.twin(cluster, app, own); before != nil {
		p.Files = before
		return p
	}
	name := p.Cluster
	if w.Spec.Shared {
		name = "any"
	}
	p.Files = make(map[string][]byte, w.Spec.Resources)
	for r := range w.Spec.Resources {
		version := fmt.Sprint(w.values[app])
		if r == 0 && own > 0 {
			version += fmt.Sprintf(".%s.%d", p.Cluster, own)
		}
		p.Files[Resource(r)+".yaml"] = Manifest(Text{Cluster: name, App: p.App, Resource: Resource(r), Version: version, Bytes: w.Spec.Bytes})
	}
	return p
}

// twin is the content of the first cluster, if this cluster has the same.
func (w *World) twin(cluster, app, own int) map[string][]byte {
	if !w.Spec.Shared || cluster == 0 || own > 0 || w.own[[2]int{0, app}] > 0 {
		return nil
	}
	return w.pairs[app].Files
}

// Text is the text in a manifest.
type Text struct {
	Cluster, App, Resource, Version string
	Bytes                           int
}

// Manifest is a ConfigMap of about the requested size, which compresses to about half.
func Manifest(t Text) []byte {
	var out strings.Builder
	fmt.Fprintf(&out, "apiVersion: v1\ndata:\n  cluster: %s\n  version: %q\n  text: |\n", t.Cluster, t.Version)
	seed := fnv.New64a()
	fmt.Fprint(seed, t.Cluster, t.App, t.Resource)
	noise := rand.New(rand.NewPCG(seed.Sum64(), 1))
	tail := fmt.Sprintf("kind: ConfigMap\nmetadata:\n  name: %s-%s\n", t.App, t.Resource)
	for out.Len()+len(tail) < t.Bytes-30 {
		fmt.Fprintf(&out, "    %016x%016x%016x\n", noise.Uint64(), noise.Uint64(), noise.Uint64())
	}
	out.WriteString(tail)
	return []byte(out.String())
}
