package placement

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Memo remembers decisions by one filter each, and takes them again as long as what the
// intent speaks of is the same. It is safe for use by many goroutines; its zero value is
// empty.
type Memo struct {
	mu   sync.Mutex
	made map[question]made
	size int // clusters in all that is remembered
}

// maxRemembered bounds the clusters of what is remembered.
const maxRemembered = 100_000

// question is what a decision answers.
type question struct {
	intent string
	filter Filter
}

// made is a decision with what it was made from.
type made struct {
	spoken   [][]string
	decision Decision
	err      error
}

func (m made) size() (n int) {
	for _, keys := range m.spoken {
		n += len(keys)
	}
	return n
}

// Decide decides as the function of that name does, with one filter, which must be
// comparable and give the same verdict on the same cluster whatever the app. The decision
// may be that of another app; nothing in it may be changed.
func (m *Memo) Decide(ctx context.Context, req Request, filter Filter) (Decision, error) {
	q, spoken := question{fmt.Sprintf("%q", req.Intent), filter}, req.spoken()
	if known, ok := m.recall(q, spoken); ok {
		return known.decision, known.err
	}
	d, err := Decide(ctx, req, []Filter{filter})
	if err == nil || errs.Is(err, errs.Invalid) {
		m.remember(q, made{spoken, d, err})
	}
	return d, err
}

func (m *Memo) recall(q question, spoken [][]string) (made, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.made[q]
	return known, ok && slices.EqualFunc(known.spoken, spoken, slices.Equal)
}

func (m *Memo) remember(q question, d made) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size += d.size() - m.made[q].size()
	if m.made == nil || m.size > maxRemembered {
		m.made, m.size = map[question]made{}, d.size()
	}
	m.made[q] = d
}

// spoken returns the clusters that each selector of the intent speaks of.
func (r Request) spoken() (out [][]string) {
	for _, s := range r.Intent.selectors() {
		if s.Cluster == "" {
			out = append(out, r.Inventory.Labelled(s.Provider, s.Label))
			continue
		}
		key := Cluster{Provider: s.Provider, Name: s.Cluster}.Key()
		if _, known := r.Inventory.Cluster(key); !known {
			key = ""
		}
		out = append(out, []string{key})
	}
	return out
}

// selectors returns all selectors of an intent, in order.
func (i Intent) selectors() (out []Selector) {
	for _, t := range i.AllOf {
		if len(t.AnyOf) == 0 {
			out = append(out, t.Selector)
		}
		out = append(out, t.AnyOf...)
	}
	return append(out, i.AnyOf...)
}
