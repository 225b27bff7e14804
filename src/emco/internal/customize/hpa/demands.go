package hpa

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
)

// Demands implements placement.Controller. The free resources of a cluster come from its key-value pairs, and from its nodes
// for resources without such a pair.
func (h Controller) Demands(ctx context.Context, at placement.Deployment) (map[string]placement.Demand, error) {
	all, err := h.needs(ctx, at.Group, at.Intent)
	if err != nil {
		return nil, err
	}
	rooms, err := h.rooms(ctx, at, all)
	if err != nil {
		return nil, err
	}
	filters := map[string]*candidateFilter{} // by app
	out := map[string]placement.Demand{}
	for _, n := range all {
		d := out[n.app]
		d.Momentary = rooms[n.app].momentary()
		switch f := filters[n.app]; {
		case !n.Mandatory:
			s, err := n.scorer(rooms[n.app])
			if err != nil {
				return nil, err
			}
			d.Scorers = append(d.Scorers, s)
		case f == nil:
			f = &candidateFilter{room: rooms[n.app]}
			filters[n.app], d.Filters = f, []placement.Filter{f}
			f.add(n)
		default:
			f.add(n)
		}
		out[n.app] = d
	}
	return out, nil
}

// candidateFacts is what is known of the candidates of an app besides their key-value pairs.
type candidateFacts struct {
	free    map[v2.ClusterKey]status.Capacity // of clusters without a key-value pair for each resource
	running []v2.ClusterKey                   // that the app is placed on now, sorted
}

// momentary reports whether more than documents was read, or would have to be.
func (r candidateFacts) momentary() bool { return r.free != nil }

// rooms reads what the candidates of apps have free, by app.
func (h Controller) rooms(ctx context.Context, at placement.Deployment, all []requirement) (map[string]candidateFacts, error) {
	resources := map[string][]string{} // that apps need an amount of
	for _, n := range all {
		if n.isAmount() {
			resources[n.app] = append(resources[n.app], n.Resource.Name)
		}
	}
	if len(resources) == 0 {
		return nil, nil
	}
	candidates, err := at.Candidates(ctx)
	if err != nil {
		return nil, err
	}
	out, ask := map[string]candidateFacts{}, map[v2.ClusterKey]bool{}
	for _, c := range candidates {
		for _, cluster := range slices.Concat(append(c.AnyOf, c.Mandatory)...) {
			facts, err := at.Facts(ctx, cluster)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(resources[c.App], func(name string) bool { _, said := free(name, facts); return !said }) {
				ask[cluster] = true
				out[c.App] = candidateFacts{free: map[v2.ClusterKey]status.Capacity{}}
			}
		}
	}
	if len(ask) == 0 || at.DocumentsOnly {
		return out, nil
	}
	known, err := h.free(ctx, slices.Sorted(maps.Keys(ask)))
	if err != nil {
		return nil, err
	}
	running, err := at.Running(ctx)
	if err != nil {
		return nil, err
	}
	for app := range out {
		out[app] = candidateFacts{free: known, running: running[app]}
	}
	return out, nil
}

// runs reports whether the app is placed on a cluster now. What its pods take is not free, so it is not compared again.
func (r candidateFacts) runs(cluster v2.ClusterKey) bool {
	_, found := slices.BinarySearch(r.running, cluster)
	return found
}

// scorer prefers clusters that meet the requirement.
func (n requirement) scorer(r candidateFacts) (placement.Scorer, error) {
	out := placement.Scorer{Weight: float64(max(n.Weight, 1))}
	if !n.isAmount() {
		out.Name = n.Resource.Key + "=" + n.Resource.Value
		out.Value = func(c placement.Cluster, facts map[string]string) (float64, bool) {
			return met(n.capable(c, facts)), true
		}
		return out, nil
	}
	total, err := n.total()
	if err != nil {
		return out, err
	}
	each, err := n.perPod()
	out.Name = "room for " + n.Resource.Name
	out.Value = func(c placement.Cluster, facts map[string]string) (float64, bool) {
		if has, said := free(n.Resource.Name, facts); said {
			return met(has >= total), true
		}
		if r.runs(c.Key()) {
			return 1, true
		}
		nodes := r.free[c.Key()]
		return met(shortage(nodes, []workloadPods{{n.workload.Name, n.replicas(), map[string]int64{n.Resource.Name: each}}}) == ""), nodes.Known()
	}
	return out, err
}

func met(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// candidateFilter leaves out clusters that lack what an app must have.
type candidateFilter struct {
	room         candidateFacts
	amounts      []requirement
	capabilities []requirement
}

func (f *candidateFilter) add(n requirement) {
	if n.isAmount() {
		f.amounts = append(f.amounts, n)
	} else {
		f.capabilities = append(f.capabilities, n)
	}
}

// Admit implements placement.Filter.
func (f *candidateFilter) Admit(ctx context.Context, req placement.Request, c placement.Cluster) (placement.Verdict, error) {
	v := placement.Verdict{Cluster: c.Key()}
	var facts map[string]string
	if req.Facts != nil {
		var err error
		if facts, err = req.Facts(ctx, c.Key()); err != nil {
			return v, err
		}
	}
	for _, n := range f.capabilities {
		if !n.capable(c, facts) {
			v.Reason = fmt.Sprintf("has no capability %s=%s (hpa)", n.Resource.Key, n.Resource.Value)
			return v, nil
		}
	}
	var err error
	if v.Reason, err = f.shortage(c.Key(), facts); err != nil || v.Reason != "" {
		v.Reason += " (hpa)"
		return v, err
	}
	v.Admitted, v.Reason = true, "has what the workloads need"
	return v, nil
}

// shortage returns which amount a cluster has no room for; empty for none. Resources with a key-value pair are compared in
// total, the others node by node.
func (f *candidateFilter) shortage(cluster v2.ClusterKey, facts map[string]string) (string, error) {
	totals, byWorkload := map[string]float64{}, map[string]workloadPods{}
	for _, n := range f.amounts {
		total, err := n.total()
		if err != nil {
			return "", err
		}
		if _, said := free(n.Resource.Name, facts); said {
			totals[n.Resource.Name] += total
			continue
		}
		each, err := n.perPod()
		if err != nil {
			return "", err
		}
		key := n.workload.Kind + "/" + n.workload.Name // its containers are in the same pods
		p := byWorkload[key]
		if p.requests == nil {
			p.requests = map[string]int64{}
		}
		p.workload, p.count = n.workload.Name, max(p.count, n.replicas())
		p.requests[n.Resource.Name] = min(p.requests[n.Resource.Name]+each, math.MaxInt64/2) // each is far below
		byWorkload[key] = p
	}
	for _, name := range slices.Sorted(maps.Keys(totals)) {
		if has, _ := free(name, facts); has < totals[name] {
			return fmt.Sprintf("has %s of %s free, and %s are needed", shown(has), name, shown(totals[name])), nil
		}
	}
	if len(byWorkload) == 0 || f.room.runs(cluster) {
		return "", nil
	}
	return shortage(f.room.free[cluster], slices.SortedFunc(maps.Values(byWorkload), func(a, b workloadPods) int { return cmp.Compare(a.workload, b.workload) })), nil
}

func shown(n float64) string {
	return strconv.FormatFloat(math.Round(n*1000)/1000, 'f', -1, 64)
}
