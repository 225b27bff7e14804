package intake

import (
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/git"
)

// indexedReport is a report with indexes for look-ups by pair.
type indexedReport struct {
	report        status.Report
	apps          map[string]status.App // by label
	unseen        map[manifest.GroupKind]string
	clusterScoped map[manifest.ObjectKey]status.Object // cluster-scoped objects of all apps
	desired       func() (git.Repo, error)             // the repository with the cluster's desired state

	objectsProved, hooksProved bool // objects, or hooks, that the agent may not read have the desired content
}

func keyOf(o status.Object) manifest.ObjectKey {
	return manifest.ObjectKey{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

func kindOf(k manifest.ObjectKey) manifest.GroupKind {
	return manifest.GroupKind{Group: k.Group, Kind: k.Kind}
}

func withoutNamespace(k manifest.ObjectKey) manifest.ObjectKey { k.Namespace = ""; return k }
func idOf(o status.Object) manifest.ID {
	return manifest.ID{Group: o.Group, Version: o.Version, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

func indexReport(r status.Report) *indexedReport {
	x := &indexedReport{report: r, apps: map[string]status.App{}, unseen: map[manifest.GroupKind]string{}, clusterScoped: map[manifest.ObjectKey]status.Object{}}
	for _, a := range r.Apps {
		x.apps[a.Label] = a
		for _, o := range a.Objects {
			if o.Namespace == "" {
				x.clusterScoped[keyOf(o)] = o
			}
		}
	}
	for _, u := range r.Unseen {
		x.unseen[manifest.GroupKind{Group: u.Group, Kind: u.Kind}] = u.Reason
	}
	return x
}

// app returns what the report has of a pair.
func (x *indexedReport) app(key appcontext.PairKey) (app status.App, known bool) {
	_, label := manifest.DeploymentLabel(key.Deployment, key.App)
	app, known = x.apps[label]
	return app, known
}

// pairReport builds the report of a pair: first the objects of its bundle in their order,
// then other objects with its label.
func (x *indexedReport) pairReport(p Pair) appcontext.Report {
	app, known := x.app(p.Key)
	have := map[manifest.ObjectKey]status.Object{}
	for _, o := range app.Objects {
		have[keyOf(o)] = o
	}
	out := appcontext.Report{Key: p.Key, Commit: app.Commit, Proof: x.proof(p, app.Commit), Truncated: app.Truncated, Resources: make([]appcontext.ResourceStatus, 0, len(p.Objects))}
	for _, ref := range p.Objects {
		at, o, there := x.find(have, ref.ID)
		if !there {
			out.Resources = append(out.Resources, x.absentStatus(ref.ID, app, known))
			continue
		}
		delete(have, at)
		out.Resources = append(out.Resources, presentStatus(ref, o, app, x.objectsProved))
	}
	for _, ref := range p.Hooks { // an absent hook has not run yet, or has finished
		if at, o, there := x.find(have, ref.ID); there {
			delete(have, at)
			out.Resources = append(out.Resources, presentStatus(ref, o, app, x.hooksProved))
		}
	}
	for _, o := range app.Objects {
		if _, left := have[keyOf(o)]; left {
			out.Resources = append(out.Resources, appcontext.ResourceStatus{ID: idOf(o), Status: o.Status, Reason: o.Reason, Content: o.Content, Extra: true})
		}
	}
	return out
}

// proof returns the proof for the commit of a pair: that of this report, or else the one that is known already.
func (x *indexedReport) proof(p Pair, commit string) appcontext.Proof {
	switch {
	case x.hooksProved: // if there is a commit of the objects, it is that of the hooks
		return appcontext.Proof{By: commit, Holds: p.HookCommit}
	case p.HookCommit != "" && p.Proof.Holds == p.HookCommit:
		return p.Proof
	}
	return appcontext.Proof{}
}

// find looks up an object of a bundle among the objects of its app. A custom kind may turn out
// to be cluster-scoped, and a cluster-scoped object that several apps bring, such as a
// definition, may carry the label of another app.
func (x *indexedReport) find(have map[manifest.ObjectKey]status.Object, id manifest.ID) (manifest.ObjectKey, status.Object, bool) {
	n := id.Key()
	if o, ok := have[n]; ok {
		return n, o, true
	}
	n = withoutNamespace(n)
	if o, ok := have[n]; ok {
		return n, o, true
	}
	o, ok := x.clusterScoped[n]
	return n, o, ok
}

// presentStatus is the status of a reported object of the bundle. An object that the agent may not
// read has the desired content if the reconciler has applied a commit that holds it.
func presentStatus(ref appcontext.Ref, o status.Object, app status.App, vouched bool) appcontext.ResourceStatus {
	out := appcontext.ResourceStatus{ID: ref.ID, Status: o.Status, Reason: o.Reason, Content: o.Content}
	switch {
	case o.Unread && o.Status != status.Current:
	case o.Unread && vouched:
		out.Content = ref.Stamp
	case o.Unread:
		out.Reason = "the agent may not read it, and the reconciler has not yet reported the commit that holds it"
	}
	if out.Reason == "" && out.Content != ref.Stamp {
		out.Reason = app.Error // why the cluster holds other content
	}
	return out
}

// absentStatus is the status of an object of the bundle that the report does not name.
func (x *indexedReport) absentStatus(id manifest.ID, app status.App, known bool) appcontext.ResourceStatus {
	out := appcontext.ResourceStatus{ID: id, Status: status.NotFound, Reason: app.Error}
	why, unseen := x.unseen[kindOf(id.Key())]
	switch {
	case unseen:
		out.Status, out.Reason = status.Unknown, fmt.Sprintf("the agent cannot read objects of kind %s: %s", id.Kind, why)
	case app.Truncated > 0 || !known && x.report.Truncated > 0:
		out.Status, out.Reason = status.Unknown, "the report is truncated"
	}
	return out
}
