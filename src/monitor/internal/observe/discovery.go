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

	"github.com/emco-orchestrator/emco/src/monitor/internal/reconcilerstatus"
)

// ignoredKinds are kinds that the cluster derives from objects of users, with their labels,
// or that change all the time.
var ignoredKinds = []schema.GroupKind{
	{Group: "", Kind: "Endpoints"},
	{Group: "discovery.k8s.io", Kind: "EndpointSlice"},
	{Group: "", Kind: "Event"},
	{Group: "events.k8s.io", Kind: "Event"},
	{Group: "coordination.k8s.io", Kind: "Lease"},
	{Group: "apps", Kind: "ControllerRevision"},
	{Group: "k8splugin.io", Kind: "ResourceBundleState"},
}

// readMode is the part of the objects of a kind to read.
type readMode uint8

const (
	wholeObject  readMode = iota
	metadataOnly          // for kinds that have much data and no status
	sourceObject          // objects that belong to no app, but report about whole deployments
)

// servedKind is a kind as the cluster serves it.
type servedKind struct {
	gvk  schema.GroupVersionKind
	gvr  schema.GroupVersionResource
	mode readMode
}

// discoveryResult is what one discovery found.
type discoveryResult struct {
	kinds   []servedKind
	ignored map[schema.GroupKind]string // kinds that are not watched, and why
	failed  map[string]bool             // groups that did not answer; their kinds stay as they are
}

// discover lists the kinds that can be listed and watched.
func (o *Observer) discover(ctx context.Context) (discoveryResult, error) {
	d := discoveryResult{ignored: map[schema.GroupKind]string{}, failed: map[string]bool{}}
	lists, err := discovery.ToDiscoveryInterfaceWithContext(o.clients.Discovery).ServerPreferredResourcesWithContext(ctx)
	if groups, ok := discovery.GroupDiscoveryFailedErrorGroups(err); ok {
		for gv := range groups {
			d.failed[gv.Group] = true
		}
		err = nil
	}
	for _, list := range lists {
		gv, parseErr := schema.ParseGroupVersion(list.GroupVersion)
		if parseErr != nil {
			continue
		}
		for _, r := range list.APIResources {
			o.classify(&d, gv, r)
		}
	}
	slices.SortFunc(d.kinds, func(a, b servedKind) int {
		return cmp.Or(cmp.Compare(a.gvk.Group, b.gvk.Group), cmp.Compare(a.gvk.Kind, b.gvk.Kind))
	})
	for len(d.kinds) > o.options.MaxKinds {
		last := len(d.kinds) - 1
		d.ignored[d.kinds[last].gvk.GroupKind()] = "the cluster has too many kinds"
		d.kinds = d.kinds[:last]
	}
	return d, err
}

// classify adds a kind to those that are watched or to those that are ignored.
func (o *Observer) classify(d *discoveryResult, gv schema.GroupVersion, r metav1.APIResource) {
	if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "watch") {
		return
	}
	s := servedKind{gvk: gv.WithKind(r.Kind), gvr: gv.WithResource(r.Name)}
	gk := s.gvk.GroupKind()
	switch {
	case slices.Contains(ignoredKinds, gk), slices.Contains(o.options.Exclude, gk.Kind), slices.Contains(o.options.Exclude, gk.String()):
		d.ignored[gk] = "excluded"
		return
	case gk == schema.GroupKind{Kind: "Secret"} && !o.options.Secrets:
		d.ignored[gk] = "excluded"
		return
	case gk == schema.GroupKind{Kind: "Secret"}, gk == schema.GroupKind{Kind: "ConfigMap"}:
		s.mode = metadataOnly
	case reconcilerstatus.ReportsDeployment(gk):
		s.mode = sourceObject
	}
	d.kinds = append(d.kinds, s)
}

// updateKinds starts to watch kinds that are new, and stops to watch those that are gone.
func (o *Observer) updateKinds(ctx context.Context, d discoveryResult, watches *sync.WaitGroup) {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := map[schema.GroupKind]servedKind{}
	for _, s := range d.kinds {
		found[s.gvk.GroupKind()] = s
	}
	for gk, k := range o.kinds {
		if s, ok := found[gk]; (!ok || s != k.servedKind) && !d.failed[gk.Group] {
			k.stopLocked()
			delete(o.kinds, gk)
		}
	}
	for gk, s := range found {
		if o.kinds[gk] == nil {
			kindCtx, stop := context.WithCancel(ctx)
			k := newKindWatch(o, s, stop)
			o.kinds[gk] = k
			watches.Go(func() { k.run(kindCtx) })
		}
	}
	o.ignored, o.discovered = d.ignored, true
	o.changedLocked()
}
