package tally

import v2 "github.com/emco-orchestrator/emco/src/api/v2"

// newsItem names a cluster or a deployment that has changed; the other field is empty.
type newsItem struct {
	cluster    v2.ClusterKey
	deployment v2.DeploymentID
}

// keptNews bounds the news that are kept for slow readers.
const keptNews = 8192

// newsRing keeps the latest news. Readers that are further behind must read everything
// again.
type newsRing struct {
	items []newsItem
	next  int64 // number of the next item
	first int64 // number below which items are gone
}

func newNewsRing() *newsRing { return &newsRing{items: make([]newsItem, 0, keptNews)} }

// restart drops all news: everything may have changed.
func (r *newsRing) restart() {
	r.next++
	r.items, r.first = r.items[:0], r.next
}

func (r *newsRing) add(item newsItem) {
	if len(r.items) == keptNews {
		r.items = append(r.items[:0], r.items[keptNews/2:]...)
		r.first = r.next - int64(len(r.items))
	}
	r.items = append(r.items, item)
	r.next++
}

// since returns the news from a number on, each once; false if some are gone.
func (r *newsRing) since(number int64) (map[newsItem]bool, bool) {
	if number < r.first || number > r.next {
		return nil, false
	}
	out := map[newsItem]bool{}
	for _, item := range r.items[len(r.items)-int(r.next-number):] {
		out[item] = true
	}
	return out, true
}
