package observe

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/monitor/internal/reconciler"
)

// never are kinds that the cluster makes by itself from objects of users, with their
// labels, or that change all the time.
var never = []schema.GroupKind{
	{Group: "", Kind: "Endpoints"},
	{Group: "discovery.k8s.io", Kind: "EndpointSlice"},
	{Group: "", Kind: "Event"},
	{Group: "events.k8s.io", Kind: "Event"},
	{Group: "coordination.k8s.io", Kind: "Lease"},
	{Group: "apps", Kind: "ControllerRevision"},
	{Group: "k8splugin.io", Kind: "ResourceBundleState"},
}

// form is how much of an object is fetched.
type form uint8

const (
	whole  form = iota
	header      // metadata alone, of kinds that have no status but much data
	source      // GitRepositories: no objects of an app, but they say why one is not updated
)

// served is a kind as the cluster serves it.
type served struct {
	gvk  schema.GroupVersionKind
	gvr  schema.GroupVersionResource
	form form
}

// found is what a look for kinds found.
type found struct {
	kinds   []served
	leftOut map[schema.GroupKind]string
	failed  map[string]bool // groups that could not be asked; their kinds stay as they are
}

// discover lists the kinds that can be listed and watched.
func (o *Observer) discover(ctx context.Context) (found, error) {
	f := found{leftOut: map[schema.GroupKind]string{}, failed: map[string]bool{}}
	lists, err := discovery.ToDiscoveryInterfaceWithContext(o.clients.Discovery).ServerPreferredResourcesWithContext(ctx)
	if groups, ok := discovery.GroupDiscoveryFailedErrorGroups(err); ok {
		for gv := range groups {
			f.failed[gv.Group] = true
		}
		err = nil
	}
	for _, list := range lists {
		gv, parseErr := schema.ParseGroupVersion(list.GroupVersion)
		if parseErr != nil {
			continue
		}
		for _, r := range list.APIResources {
			o.consider(&f, gv, r)
		}
	}
	slices.SortFunc(f.kinds, func(a, b served) int {
		return cmp.Or(cmp.Compare(a.gvk.Group, b.gvk.Group), cmp.Compare(a.gvk.Kind, b.gvk.Kind))
	})
	for len(f.kinds) > o.options.MaxKinds {
		last := len(f.kinds) - 1
		f.leftOut[f.kinds[last].gvk.GroupKind()] = "the cluster has too many kinds"
		f.kinds = f.kinds[:last]
	}
	return f, err
}

// consider says what to do about a kind.
func (o *Observer) consider(f *found, gv schema.GroupVersion, r metav1.APIResource) {
	if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "watch") {
		return
	}
	s := served{gvk: gv.WithKind(r.Kind), gvr: gv.WithResource(r.Name)}
	gk := s.gvk.GroupKind()
	switch {
	case slices.Contains(never, gk), slices.Contains(o.options.Exclude, gk.Kind), slices.Contains(o.options.Exclude, gk.String()):
		f.leftOut[gk] = "excluded"
		return
	case gk == schema.GroupKind{Kind: "Secret"} && !o.options.Secrets:
		f.leftOut[gk] = "excluded"
		return
	case gk == schema.GroupKind{Kind: "Secret"}, gk == schema.GroupKind{Kind: "ConfigMap"}:
		s.form = header
	case reconciler.IsSource(gk):
		s.form = source
	}
	f.kinds = append(f.kinds, s)
}

// arrange starts to follow kinds that are new and forgets those that are gone.
func (o *Observer) arrange(ctx context.Context, f found, running *sync.WaitGroup) {
	o.mu.Lock()
	defer o.mu.Unlock()
	wanted := map[schema.GroupKind]served{}
	for _, s := range f.kinds {
		wanted[s.gvk.GroupKind()] = s
	}
	for gk, k := range o.kinds {
		if s, ok := wanted[gk]; (!ok || s != k.served) && !f.failed[gk.Group] {
			k.end()
			delete(o.kinds, gk)
		}
	}
	for gk, s := range wanted {
		if o.kinds[gk] == nil {
			kindCtx, stop := context.WithCancel(ctx)
			k := newKind(o, s, stop)
			o.kinds[gk] = k
			running.Go(func() { k.run(kindCtx) })
		}
	}
	o.leftOut, o.looked = f.leftOut, true
	o.changed()
}

// Unseen returns the kinds of which nothing is known now, and why, sorted.
func (o *Observer) Unseen() []status.Unseen {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unseen()
}

func (o *Observer) unseen() []status.Unseen {
	var out []status.Unseen
	for gk, why := range o.leftOut {
		out = append(out, status.Unseen{Group: gk.Group, Kind: gk.Kind, Reason: why})
	}
	for gk, k := range o.kinds {
		if k.state != live && k.form != source {
			out = append(out, status.Unseen{Group: gk.Group, Kind: gk.Kind, Reason: k.reason()})
		}
	}
	slices.SortFunc(out, func(a, b status.Unseen) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}
