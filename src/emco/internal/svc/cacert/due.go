package cacert

import (
	"container/heap"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// dueQueue has certificate authorities in order of the time at which to look at them.
type dueQueue struct {
	entries dueHeap
	by      map[store.Key]*dueEntry
}

// dueEntry is a certificate authority in the queue.
type dueEntry struct {
	authority store.Key
	at        time.Time
	index     int // in entries
}

// add makes sure that an authority comes at a time, or earlier.
func (q *dueQueue) add(authority store.Key, at time.Time) {
	if e := q.by[authority]; e != nil {
		if at.Before(e.at) {
			e.at = at
			heap.Fix(&q.entries, e.index)
		}
		return
	}
	e := &dueEntry{authority: authority, at: at}
	if q.by == nil {
		q.by = map[store.Key]*dueEntry{}
	}
	q.by[authority] = e
	heap.Push(&q.entries, e)
}

// take removes the first authority if it is due; otherwise it returns the time of the first one, which is zero if
// there is none.
func (q *dueQueue) take(now time.Time) (authority store.Key, due bool, next time.Time) {
	if len(q.entries) == 0 {
		return "", false, time.Time{}
	}
	first := q.entries[0]
	if first.at.After(now) {
		return "", false, first.at
	}
	heap.Pop(&q.entries)
	delete(q.by, first.authority)
	return first.authority, true, time.Time{}
}

// dueHeap implements heap.Interface.
type dueHeap []*dueEntry

func (e dueHeap) Len() int           { return len(e) }
func (e dueHeap) Less(i, j int) bool { return e[i].at.Before(e[j].at) }

func (e dueHeap) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].index, e[j].index = i, j
}

// Push implements heap.Interface.
func (e *dueHeap) Push(x any) {
	added := x.(*dueEntry)
	added.index = len(*e)
	*e = append(*e, added)
}

// Pop implements heap.Interface.
func (e *dueHeap) Pop() any {
	last := len(*e) - 1
	out := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return out
}
