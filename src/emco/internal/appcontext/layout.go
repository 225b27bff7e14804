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
)

// maxClusters is the number of clusters in one value of placements.
const maxClusters = 4096

// layout is one value of placements. Most clusters of a fleet hold the same, which is
// written once.
type layout struct {
	Sets     []map[string]Digest `json:"sets"`     // app -> bundle
	Clusters []string            `json:"clusters"` // <provider>+<cluster>
	Holds    []int               `json:"holds"`    // of each cluster: which of Sets
}

// check refuses a layout that is not whole.
func (l layout) check() error {
	if len(l.Clusters) != len(l.Holds) {
		return corrupt("placements", fmt.Errorf("%d clusters hold %d sets", len(l.Clusters), len(l.Holds)))
	}
	for _, n := range l.Holds {
		if n < 0 || n >= len(l.Sets) {
			return corrupt("placements", errors.New("a cluster holds a set that is not there"))
		}
	}
	return nil
}

// placements yields what each cluster holds.
func (l layout) placements() iter.Seq[Placement] {
	return func(yield func(Placement) bool) {
		for i, c := range l.Clusters {
			if !yield(Placement{Cluster: c, Apps: l.Sets[l.Holds[i]]}) {
				return
			}
		}
	}
}

// layoutsOf yields placements, in their order, in layouts that fit into one value each.
func layoutsOf(prefix string, places iter.Seq[Placement]) iter.Seq2[layout, error] {
	return func(yield func(layout, error) bool) {
		d := newDrawing()
		for p := range places {
			size, err := d.sizeWith(p)
			if err == nil && size > maxValue && len(d.Clusters) > 0 || len(d.Clusters) == maxClusters {
				if !yield(d.layout, nil) {
					return
				}
				d = newDrawing()
				size, err = d.sizeWith(p)
			}
			if err == nil {
				err = checkPlacement(prefix, p, size)
			}
			if err != nil {
				yield(layout{}, err)
				return
			}
			d.add(p, size)
		}
		if len(d.Clusters) > 0 {
			yield(d.layout, nil)
		}
	}
}

func checkPlacement(prefix string, p Placement, size int) error {
	if size > maxValue {
		return errs.E(errs.TooLarge, "store", prefix+" "+p.Cluster, fmt.Errorf("%d apps on one cluster take %d bytes", len(p.Apps), size))
	}
	return checkParts(p.Cluster)
}

// drawing is a layout that grows.
type drawing struct {
	layout
	size  int             // bytes that it takes, about, and never less
	sets  map[string]int  // by what is in them
	given map[uintptr]int // those of Sets by what placements share them by
}

func newDrawing() *drawing {
	return &drawing{size: 64, sets: map[string]int{}, given: map[uintptr]int{}}
}

// find returns which of Sets a placement holds, if it is there.
func (d *drawing) find(p Placement) (int, bool) {
	if n, shared := d.given[p.Set()]; shared {
		return n, true
	}
	n, known := d.sets[signature(p.Apps)]
	return n, known
}

// sizeWith is the size that the layout would have with a placement.
func (d *drawing) sizeWith(p Placement) (int, error) {
	size := d.size + len(p.Cluster) + 12 // quotes, commas, and a number below maxClusters
	if _, known := d.find(p); known {
		return size, nil
	}
	text, err := json.Marshal(p.Apps)
	return size + len(text) + 1, err
}

// add puts a placement into the layout, which is of the given size then.
func (d *drawing) add(p Placement, size int) {
	n, known := d.find(p)
	if !known {
		n = len(d.Sets)
		d.sets[signature(p.Apps)], d.given[p.Set()], d.Sets = n, n, append(d.Sets, p.Apps)
	}
	d.Clusters, d.Holds, d.size = append(d.Clusters, p.Cluster), append(d.Holds, n), size
}

// signature tells sets of bundles apart.
func signature(apps map[string]Digest) string {
	var b strings.Builder
	for _, app := range slices.Sorted(maps.Keys(apps)) {
		b.WriteString(app)
		b.WriteByte(0)
		b.WriteString(string(apps[app]))
		b.WriteByte(0)
	}
	return b.String()
}

// Set tells placements apart that do not share their Apps: it is the same for those that do,
// as long as one of them is in use.
func (p Placement) Set() uintptr { return reflect.ValueOf(p.Apps).Pointer() }

// Zip yields, in order, what two lists of placements say of each cluster that one of them
// names; what does not name it says so with a Placement without Apps. Both are in order of
// cluster, and name each once.
func Zip(a, b []Placement) iter.Seq2[Placement, Placement] {
	return func(yield func(Placement, Placement) bool) {
		for len(a) > 0 || len(b) > 0 {
			var x, y Placement
			order := 1 // of the heads; the list that is over comes last
			switch {
			case len(b) == 0:
				order = -1
			case len(a) > 0:
				order = strings.Compare(a[0].Cluster, b[0].Cluster)
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
