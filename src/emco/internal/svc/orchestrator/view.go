package orchestrator

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// unknown is said of the readiness of what no cluster has reported on. EMCO calls it
// NotPresent, which it may not be.
const unknown = "Unknown"

// view writes a situation down as one query asks for it.
type view struct {
	situation
	query
	reports map[appcontext.PairKey]appcontext.Report
	bundles map[appcontext.Digest]appcontext.Bundle
	details map[appcontext.Digest]json.RawMessage // only if the query asks for them
}

// write fills the answer. Counts cover everything that passes the filters, whatever
// the output.
func (v view) write(out *v2.Status) error {
	if err := v.checkApps(); err != nil {
		return err
	}
	out.Failure = v.head.Failure
	counts, places, failed := map[string]int{}, byApp(v.wants), false
	for _, a := range v.rev.Apps {
		if !admits(v.apps, a.Name) {
			continue
		}
		failed = failed || a.Failure != nil
		app := v2.AppStatus{Name: a.Name, Failure: failureOf(a), Findings: a.Findings}
		for _, p := range places[a.Name] {
			if !admits(v.clusters, p.cluster) {
				continue
			}
			if c := v.cluster(a.Name, p, counts); len(c.Resources) > 0 {
				app.Clusters = append(app.Clusters, c)
			}
		}
		if len(app.Clusters) > 0 || app.Failure != nil {
			out.Apps = append(out.Apps, app)
		}
	}
	if v.output == "summary" {
		out.Apps = nil
	}
	v.totals(out, counts)
	if v.ready {
		out.ReadyStatus = overall(counts, failed)
	}
	return nil
}

func (v view) checkApps() error {
	for name := range v.apps {
		known := false
		for _, a := range v.rev.Apps {
			known = known || a.Name == name
		}
		if !known {
			return errs.New(errs.Invalid, fmt.Sprintf("Invalid app query: the deployment has no app %q", name))
		}
	}
	return nil
}

// totals writes the status of the whole under the names that the query asks for.
func (v view) totals(out *v2.Status, counts map[string]int) {
	status := v.deployed()
	if v.legacy {
		out.Status = status
	} else {
		out.DeployedStatus = status
	}
	switch {
	case v.ready && v.legacy:
		out.ClusterCounts = counts
	case v.ready:
		out.ReadyCounts = counts
	case v.legacy:
		out.RsyncCounts = counts
	default:
		out.DeployedCounts = counts
	}
}

// overall is Ready only if everything is, and Unknown if nothing speaks against it
// but something has not been heard of, or there is nothing. What could not be rendered
// or placed is not ready.
func overall(counts map[string]int, failed bool) string {
	switch {
	case failed || counts[v2.NotReady]+counts[v2.NotPresent] > 0:
		return v2.NotReady
	case counts[unknown] > 0 || len(counts) == 0:
		return unknown
	}
	return v2.Ready
}

// cluster writes one pair with the resources that pass the filters.
func (v view) cluster(app string, p placed, counts map[string]int) v2.ClusterStatus {
	provider, name, _ := strings.Cut(p.cluster, "+")
	key := appcontext.PairKey{Cluster: p.cluster, UID: v.head.UID, App: app}
	pair, known := v.pairs[key]
	c := v2.ClusterStatus{Provider: provider, Cluster: name}
	report, heard := v.reports[key]
	seen := index(report)
	for _, ref := range v.objects(p.bundle) {
		if !admits(v.resources, ref.Name) {
			continue
		}
		r := v2.ResourceStatus{GVK: v2.GVK{Group: ref.Group, Version: ref.Version, Kind: ref.Kind}, Name: ref.Name, Namespace: ref.Namespace, Detail: v.details[ref.Digest]}
		state := v.synced(pair, known)
		if v.ready {
			state, r.Reason = readiness(seen, ref.ID, heard)
		}
		counts[state]++
		v.setState(&r, state)
		c.Resources = append(c.Resources, r)
	}
	v.describe(&c, pair, known, heard)
	return c
}

func (v view) objects(bundle appcontext.Digest) []appcontext.Ref {
	b := v.bundles[bundle]
	return append(b.CRDs[:len(b.CRDs):len(b.CRDs)], b.Objects...)
}

// setState puts a state where the query wants it.
func (v view) setState(r *v2.ResourceStatus, state string) {
	switch {
	case v.ready && v.legacy:
		r.ClusterStatus = state
	case v.ready:
		r.ReadyStatus = state
	case v.legacy:
		r.RsyncStatus = state
	default:
		r.DeployedStatus = state
	}
}

// synced is the synchroniser's word for a pair's resources. What is to be removed is
// still there until its pair is gone.
func (v view) synced(p appcontext.Pair, known bool) string {
	switch {
	case !known && v.head.Gone:
		return "Deleted"
	case !known:
		return string(appcontext.Pending)
	case p.Phase == appcontext.Deleting:
		return string(appcontext.Applied)
	}
	return string(p.Phase)
}

// describe adds what concerns the pair as a whole.
func (v view) describe(c *v2.ClusterStatus, p appcontext.Pair, known, heard bool) {
	link := unknown
	switch {
	case known && p.Phase == appcontext.Retrying:
		link = "Retrying"
	case heard, known && p.Phase == appcontext.Applied && p.Commit == "":
		link = "Available"
	}
	if v.legacy {
		c.ReadyStatus = link
	} else {
		c.Connectivity = link
	}
	if !known {
		return
	}
	c.Phase, c.Commit, c.Error, c.Findings = string(p.Phase), p.Commit, p.Error, p.Findings
	c.Since = &p.At
	if p.Phase == appcontext.Applied {
		c.Revision = v.head.Rev // it may have been applied for an earlier one that wanted the same
	}
}

func failureOf(a appcontext.App) *v2.AppFailure {
	if a.Failure == nil {
		return nil
	}
	return &v2.AppFailure{Stage: a.Failure.Stage, File: a.Failure.File, Reason: a.Failure.Reason}
}

// object names an object without its version, which clusters may convert.
type object struct{ group, kind, namespace, name string }

func index(r appcontext.Report) map[object]appcontext.ResourceStatus {
	out := make(map[object]appcontext.ResourceStatus, len(r.Resources))
	for _, s := range r.Resources {
		out[objectOf(s.ID)] = s
	}
	return out
}

func objectOf(id manifest.ID) object { return object{id.Group, id.Kind, id.Namespace, id.Name} }

// readiness translates what a cluster reported into EMCO's words.
func readiness(seen map[object]appcontext.ResourceStatus, id manifest.ID, heard bool) (state, reason string) {
	if !heard {
		return unknown, "the cluster has not reported; clusters that pull from Git report when they run the monitor"
	}
	s, ok := seen[objectOf(id)]
	switch {
	case !ok || s.Status == "NotFound":
		return v2.NotPresent, s.Reason
	case s.Status == "Current":
		return v2.Ready, ""
	case s.Status == unknown:
		return unknown, s.Reason
	}
	return v2.NotReady, s.Reason
}
