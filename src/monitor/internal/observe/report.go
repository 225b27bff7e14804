package observe

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/monitor/internal/reconcilerstatus"
)

// Report returns all that is known. The sender fills in who reports, and when.
func (o *Observer) Report() status.Report {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := status.Report{Schema: status.Schema, Apps: []status.App{}, Unseen: o.unseenLocked(), Capacity: o.capacity}
	unseen := map[schema.GroupKind]bool{}
	for _, u := range r.Unseen {
		unseen[schema.GroupKind{Group: u.Group, Kind: u.Kind}] = true
	}
	for _, label := range slices.Sorted(maps.Keys(o.apps)) {
		r.Apps = append(r.Apps, o.appLocked(label, unseen))
	}
	return r
}

// unseenLocked returns the kinds whose objects are not known now, and why, sorted.
func (o *Observer) unseenLocked() []status.Unseen {
	var out []status.Unseen
	for gk, why := range o.ignored {
		out = append(out, status.Unseen{Group: gk.Group, Kind: gk.Kind, Reason: why})
	}
	for gk, k := range o.kinds {
		if k.state != live && k.mode != sourceObject {
			out = append(out, status.Unseen{Group: gk.Group, Kind: gk.Kind, Reason: k.reasonLocked()})
		}
	}
	slices.SortFunc(out, func(a, b status.Unseen) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}

// appLocked reports the objects with a label, and what reconcilers report about the app.
func (o *Observer) appLocked(label string, unseen map[schema.GroupKind]bool) status.App {
	a := status.App{Label: label, Truncated: o.hiddenLocked(label)}
	var failures []string
	for _, x := range o.objectsLocked(label) {
		a.Objects = append(a.Objects, x.Object)
		if x.applied == nil {
			continue
		}
		a.Commit = x.applied.Commit
		if x.applied.Error != "" {
			failures = append(failures, x.applied.Error)
		}
		namespace, name, _ := strings.Cut(x.applied.Source, "/")
		if source := o.sources[sourceKey{reconcilerstatus.GitRepository, objectName{namespace, name}}]; source.Error != "" {
			failures = append(failures, source.Error)
		}
		a.Objects = append(a.Objects, unreadObjects(*x.applied, unseen)...)
	}
	for _, s := range o.sourcesLocked(label) {
		a.Commit = s.Commit
		if s.Error != "" {
			failures = append(failures, s.Error)
		}
	}
	a.Error = strings.Join(failures, "; ")
	return a
}

// sourcesLocked returns what reconcilers report about the whole deployment of a label,
// "<deployment>-<app>".
func (o *Observer) sourcesLocked(label string) []reconcilerstatus.DeploymentStatus {
	deployment, _, _ := strings.Cut(label, "-")
	var out []reconcilerstatus.DeploymentStatus
	for _, s := range o.sources {
		if s.Deployment != "" && s.Deployment == deployment {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b reconcilerstatus.DeploymentStatus) int {
		return cmp.Or(cmp.Compare(a.Commit, b.Commit), cmp.Compare(a.Error, b.Error))
	})
	return out
}

// unreadObjects returns the objects that a reconciler applied and that the agent cannot see.
func unreadObjects(a reconcilerstatus.Applied, unseen map[schema.GroupKind]bool) []status.Object {
	var out []status.Object
	for _, id := range a.Objects {
		if !unseen[schema.GroupKind{Group: id.Group, Kind: id.Kind}] {
			continue
		}
		o := status.Object{
			Group: id.Group, Version: id.Version, Kind: id.Kind, Namespace: id.Namespace, Name: id.Name,
			Status: status.Current, Unread: true,
		}
		if !a.Ready || a.Error != "" {
			o.Status, o.Reason = status.Unknown, "the agent may not read it, and the reconciler has not finished"
		}
		out = append(out, o)
	}
	return out
}
