package appcontext

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Placement lists which bundles a cluster holds.
type Placement struct {
	Cluster v2.ClusterKey
	Apps    map[string]Digest // app -> bundle
}

// SetID identifies the Apps of placements that share them, while one of them is in use.
func (p Placement) SetID() uintptr { return reflect.ValueOf(p.Apps).Pointer() }

// Zip yields, in order, the two placements of each cluster that one of the lists names; a
// list that does not name a cluster yields a Placement without Apps. Both lists are in
// order of cluster, and name each once.
func Zip(a, b []Placement) iter.Seq2[Placement, Placement] {
	return func(yield func(Placement, Placement) bool) {
		for len(a) > 0 || len(b) > 0 {
			var x, y Placement
			order := 1 // of the first elements; a list that has ended comes last
			switch {
			case len(b) == 0:
				order = -1
			case len(a) > 0:
				order = cmp.Compare(a[0].Cluster, b[0].Cluster)
			}
			if order <= 0 {
				x, a = a[0], a[1:]
			}
			if order >= 0 {
				y, b = b[0], b[1:]
			}
			x.Cluster, y.Cluster = cmp.Or(x.Cluster, y.Cluster), cmp.Or(y.Cluster, x.Cluster)
			if !yield(x, y) {
				return
			}
		}
	}
}

// Members is a part of a revision's placements: bit i, from the lowest bit of the first byte, stands for placement i.
type Members []byte

// MembersOf returns the placements that a function picks.
func MembersOf(places []Placement, pick func(v2.ClusterKey) bool) Members {
	m := make(Members, (len(places)+7)/8)
	for i, p := range places {
		if pick(p.Cluster) {
			m[i/8] |= 1 << (i % 8)
		}
	}
	return m
}

// Has reports whether placement i is a member.
func (m Members) Has(i int) bool { return i/8 < len(m) && m[i/8]&(1<<(i%8)) != 0 }

// maxClusters is the number of clusters in one value of placements.
const maxClusters = 4096

// placementChunk is the placements of one value. Most clusters of a fleet hold the same set of
// bundles, which is written once.
type placementChunk struct {
	Sets     []map[string]Digest // app -> bundle
	Clusters []v2.ClusterKey
	Holds    []int // for each cluster: its index in Sets
}

// check refuses an inconsistent chunk.
func (c placementChunk) check() error {
	if len(c.Clusters) != len(c.Holds) {
		return etcdkv.Corrupt("placements", fmt.Errorf("%d clusters hold %d sets", len(c.Clusters), len(c.Holds)))
	}
	for _, n := range c.Holds {
		if n < 0 || n >= len(c.Sets) {
			return etcdkv.Corrupt("placements", errors.New("a cluster holds a set that does not exist"))
		}
	}
	return nil
}

func (c placementChunk) placements() iter.Seq[Placement] {
	return func(yield func(Placement) bool) {
		for i, cluster := range c.Clusters {
			if !yield(Placement{Cluster: cluster, Apps: c.Sets[c.Holds[i]]}) {
				return
			}
		}
	}
}

// chunksOf yields placements, in their order, in chunks that fit into one value each.
func chunksOf(prefix string, places iter.Seq[Placement]) iter.Seq2[placementChunk, error] {
	return func(yield func(placementChunk, error) bool) {
		b := newChunkBuilder()
		for p := range places {
			size, err := b.sizeWith(p)
			if err == nil && size > etcdkv.MaxValue && len(b.Clusters) > 0 || len(b.Clusters) == maxClusters {
				if !yield(b.placementChunk, nil) {
					return
				}
				b = newChunkBuilder()
				size, err = b.sizeWith(p)
			}
			if err == nil {
				err = checkPlacement(prefix, p, size)
			}
			if err != nil {
				yield(placementChunk{}, err)
				return
			}
			b.add(p, size)
		}
		if len(b.Clusters) > 0 {
			yield(b.placementChunk, nil)
		}
	}
}

func checkPlacement(prefix string, p Placement, size int) error {
	if size > etcdkv.MaxValue {
		return errs.E(errs.TooLarge, "store", prefix+" "+string(p.Cluster), fmt.Errorf("%d apps on one cluster take %d bytes", len(p.Apps), size))
	}
	return etcdkv.CheckParts(string(p.Cluster))
}

// chunkBuilder is a chunk that grows.
type chunkBuilder struct {
	placementChunk
	size   int             // bytes of the chunk, an upper bound
	bySum  map[string]int  // index in Sets, by content
	shared map[uintptr]int // index in Sets, by Placement.SetID
}

func newChunkBuilder() *chunkBuilder {
	return &chunkBuilder{size: 64, bySum: map[string]int{}, shared: map[uintptr]int{}}
}

// find returns the index of a placement's set, if the chunk has it.
func (b *chunkBuilder) find(p Placement) (int, bool) {
	if n, ok := b.shared[p.SetID()]; ok {
		return n, true
	}
	n, known := b.bySum[setKey(p.Apps)]
	return n, known
}

// sizeWith is the size that the chunk would have with a placement.
func (b *chunkBuilder) sizeWith(p Placement) (int, error) {
	size := b.size + len(p.Cluster) + 12 // quotes, commas, and a number below maxClusters
	if _, known := b.find(p); known {
		return size, nil
	}
	text, err := json.Marshal(p.Apps)
	return size + len(text) + 1, err
}

// add adds a placement; the chunk has the given size afterwards.
func (b *chunkBuilder) add(p Placement, size int) {
	n, known := b.find(p)
	if !known {
		n = len(b.Sets)
		b.bySum[setKey(p.Apps)], b.shared[p.SetID()], b.Sets = n, n, append(b.Sets, p.Apps)
	}
	b.Clusters, b.Holds, b.size = append(b.Clusters, p.Cluster), append(b.Holds, n), size
}

// setKey is equal for equal sets of bundles alone.
func setKey(apps map[string]Digest) string {
	var b strings.Builder
	for _, app := range slices.Sorted(maps.Keys(apps)) {
		b.WriteString(app)
		b.WriteByte(0)
		b.WriteString(string(apps[app]))
		b.WriteByte(0)
	}
	return b.String()
}
