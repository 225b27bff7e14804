package placement

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// DecisionCache caches decisions by intent and filter. A cached decision is valid while the
// intent's selectors select the same clusters. It is safe for concurrent use; the zero
// value is empty.
type DecisionCache struct {
	mu        sync.Mutex
	decisions map[decisionKey]cachedDecision // guarded by mu
	size      int                            // clusters in all decisions; guarded by mu
}

// maxCachedClusters bounds the size of the cache.
const maxCachedClusters = 100_000

// decisionKey identifies a decision.
type decisionKey struct {
	intent string
	filter Filter
}

// cachedDecision is a decision and the clusters that it was made from.
type cachedDecision struct {
	candidates [][]v2.ClusterKey
	decision   Decision
	err        error
}

func (d cachedDecision) size() (n int) {
	for _, keys := range d.candidates {
		n += len(keys)
	}
	return n
}

// Decide works as the function Decide with one filter. The filter must be comparable, and its
// verdict on a cluster must not depend on the app. Equal filters must always give the same
// verdict: if a verdict changes, pass a new, unequal filter. Callers share the decision and
// must not change it.
func (c *DecisionCache) Decide(ctx context.Context, req Request, filter Filter) (Decision, error) {
	q, candidates := decisionKey{fmt.Sprintf("%q", req.Intent), filter}, req.candidates()
	if known, ok := c.get(q, candidates); ok {
		return known.decision, known.err
	}
	d, err := Decide(ctx, req, []Filter{filter})
	if err == nil || errs.Is(err, errs.Invalid) {
		c.put(q, cachedDecision{candidates, d, err})
	}
	return d, err
}

func (c *DecisionCache) get(q decisionKey, candidates [][]v2.ClusterKey) (cachedDecision, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.decisions[q]
	return known, ok && slices.EqualFunc(known.candidates, candidates, slices.Equal)
}

func (c *DecisionCache) put(q decisionKey, d cachedDecision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size += d.size() - c.decisions[q].size()
	if c.decisions == nil || c.size > maxCachedClusters {
		c.decisions, c.size = map[decisionKey]cachedDecision{}, d.size()
	}
	c.decisions[q] = d
}

// candidates returns the clusters that each selector of the intent selects, or the clusters with each of its labels. A cluster
// that is not registered counts as none.
func (r Request) candidates() (out [][]v2.ClusterKey) {
	for _, s := range r.Intent.selectors() {
		if s.Cluster == "" {
			for _, label := range s.Labels {
				out = append(out, r.Inventory.Labelled(s.Provider, label))
			}
			continue
		}
		key := Cluster{Provider: s.Provider, Name: s.Cluster}.Key()
		if _, known := r.Inventory.Cluster(key); !known {
			key = ""
		}
		out = append(out, []v2.ClusterKey{key})
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
