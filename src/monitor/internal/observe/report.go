package observe

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/monitor/internal/reconciler"
)

// Report returns all that is known, without the members that say who reports and when.
func (o *Observer) Report() status.Report {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := status.Report{Schema: status.Schema, Apps: []status.App{}, Unseen: o.unseen()}
	blind := map[schema.GroupKind]bool{}
	for _, u := range r.Unseen {
		blind[schema.GroupKind{Group: u.Group, Kind: u.Kind}] = true
	}
	for _, label := range slices.Sorted(maps.Keys(o.apps)) {
		r.Apps = append(r.Apps, o.app(label, blind))
	}
	return r
}

// app says how the objects of a label are doing, and what reconcilers say of them. The caller
// holds mu.
func (o *Observer) app(label string, blind map[schema.GroupKind]bool) status.App {
	a := status.App{Label: label, Truncated: o.hidden(label)}
	var why []string
	for _, x := range o.objectsOf(label) {
		a.Objects = append(a.Objects, x.Object)
		if x.applied == nil {
			continue
		}
		a.Commit = x.applied.Commit
		if x.applied.Error != "" {
			why = append(why, x.applied.Error)
		}
		if source := o.sources[sourceKey{reconciler.GitRepository, sourceName(x.applied.Source)}]; source.Error != "" {
			why = append(why, source.Error)
		}
		a.Objects = append(a.Objects, unread(*x.applied, blind)...)
	}
	for _, s := range o.syncsOf(label) {
		a.Commit = s.Commit
		if s.Error != "" {
			why = append(why, s.Error)
		}
	}
	a.Error = strings.Join(why, "; ")
	return a
}

// syncsOf returns what is said of the deployment of a label, "<deployment>-<app>", as a
// whole. The caller holds mu.
func (o *Observer) syncsOf(label string) []reconciler.Source {
	deployment, _, _ := strings.Cut(label, "-")
	var out []reconciler.Source
	for _, s := range o.sources {
		if s.Deployment != "" && s.Deployment == deployment {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b reconciler.Source) int {
		return cmp.Or(cmp.Compare(a.Commit, b.Commit), cmp.Compare(a.Error, b.Error))
	})
	return out
}

func sourceName(text string) name {
	namespace, n, _ := strings.Cut(text, "/")
	return name{namespace, n}
}

// unread are the objects that a reconciler says it applied and that the agent cannot see.
func unread(a reconciler.Applied, blind map[schema.GroupKind]bool) []status.Object {
	var out []status.Object
	for _, id := range a.Held {
		if !blind[schema.GroupKind{Group: id.Group, Kind: id.Kind}] {
			continue
		}
		o := status.Object{
			Group: id.Group, Version: id.Version, Kind: id.Kind, Namespace: id.Namespace, Name: id.Name,
			Status: status.Current, Unread: true,
		}
		if !a.Ready || a.Error != "" {
			o.Status, o.Reason = status.Unknown, "the agent may not read it, and the reconciler is not done"
		}
		out = append(out, o)
	}
	return out
}
