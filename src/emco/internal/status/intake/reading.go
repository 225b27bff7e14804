package intake

import (
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// reading is a report, ready to be asked about pairs.
type reading struct {
	report status.Report
	apps   map[string]status.App // by label
	unseen map[manifest.GroupKind]string
	shared map[name]status.Object // objects of the cluster as a whole, whichever app they are of

	vouched, vouchedHooks bool // objects, or hooks, that could not be read have the content that is desired
}

// name identifies an object whatever the version it is read in.
type name struct{ group, kind, namespace, name string }

func nameOf(o status.Object) name      { return name{o.Group, o.Kind, o.Namespace, o.Name} }
func wanted(id manifest.ID) name       { return name{id.Group, id.Kind, id.Namespace, id.Name} }
func kindOf(n name) manifest.GroupKind { return manifest.GroupKind{Group: n.group, Kind: n.kind} }
func (n name) withoutNamespace() name  { n.namespace = ""; return n }
func asID(o status.Object) manifest.ID {
	return manifest.ID{Group: o.Group, Version: o.Version, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

func read(r status.Report) *reading {
	x := &reading{report: r, apps: map[string]status.App{}, unseen: map[manifest.GroupKind]string{}, shared: map[name]status.Object{}}
	for _, a := range r.Apps {
		x.apps[a.Label] = a
		for _, o := range a.Objects {
			if o.Namespace == "" {
				x.shared[nameOf(o)] = o
			}
		}
	}
	for _, u := range r.Unseen {
		x.unseen[manifest.GroupKind{Group: u.Group, Kind: u.Kind}] = u.Reason
	}
	return x
}

// of returns what is said of a pair: first the objects of its bundle in their order,
// then others that carry its label.
func (x *reading) of(p Pair) appcontext.Report {
	_, label := manifest.DeploymentLabel(p.Key.UID, p.Key.App)
	app, known := x.apps[label]
	have := map[name]status.Object{}
	for _, o := range app.Objects {
		have[nameOf(o)] = o
	}
	out := appcontext.Report{Key: p.Key, Commit: app.Commit, Truncated: app.Truncated, Resources: make([]appcontext.ResourceStatus, 0, len(p.Objects))}
	for _, ref := range p.Objects {
		at, o, there := x.find(have, ref.ID)
		if !there {
			out.Resources = append(out.Resources, x.absent(ref.ID, app, known))
			continue
		}
		delete(have, at)
		out.Resources = append(out.Resources, present(ref, o, app, x.vouched))
	}
	for _, ref := range p.Hooks { // what is not there was not run yet, or is done with
		if at, o, there := x.find(have, ref.ID); there {
			delete(have, at)
			out.Resources = append(out.Resources, present(ref, o, app, x.vouchedHooks))
		}
	}
	for _, o := range app.Objects {
		if _, left := have[nameOf(o)]; left {
			out.Resources = append(out.Resources, appcontext.ResourceStatus{ID: asID(o), Status: o.Status, Reason: o.Reason, Content: o.Content, Extra: true})
		}
	}
	return out
}

// find looks for an object of a bundle among those of its app. One of a custom kind may
// belong to the cluster although nobody could know; and one of the cluster as a whole,
// such as a definition that several apps bring, may carry the label of another app.
func (x *reading) find(have map[name]status.Object, id manifest.ID) (name, status.Object, bool) {
	n := wanted(id)
	if o, ok := have[n]; ok {
		return n, o, true
	}
	n = n.withoutNamespace()
	if o, ok := have[n]; ok {
		return n, o, true
	}
	o, ok := x.shared[n]
	return n, o, ok
}

// present is what is said of an object of the bundle. One that could not be read has the
// desired content if the reconciler is content with all that it applied, and vouches for it.
func present(ref appcontext.Ref, o status.Object, app status.App, vouched bool) appcontext.ResourceStatus {
	out := appcontext.ResourceStatus{ID: ref.ID, Status: o.Status, Reason: o.Reason, Content: o.Content}
	switch {
	case o.Unread && o.Status != status.Current:
	case o.Unread && vouched:
		out.Content = ref.Stamp
	case o.Unread:
		out.Reason = "the agent may not read it, and the cluster does not say yet that it applied the commit that holds it"
	}
	if out.Reason == "" && out.Content != ref.Stamp {
		out.Reason = app.Error // why another content is there
	}
	return out
}

// absent is what is said of an object of the bundle that the report does not name.
func (x *reading) absent(id manifest.ID, app status.App, known bool) appcontext.ResourceStatus {
	out := appcontext.ResourceStatus{ID: id, Status: status.NotFound, Reason: app.Error}
	why, unseen := x.unseen[kindOf(wanted(id))]
	switch {
	case unseen:
		out.Status, out.Reason = status.Unknown, fmt.Sprintf("the agent does not see objects of kind %s: %s", id.Kind, why)
	case app.Truncated > 0 || !known && x.report.Truncated > 0:
		out.Status, out.Reason = status.Unknown, "the report leaves objects out"
	}
	return out
}
