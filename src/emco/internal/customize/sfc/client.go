package sfc

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// NewClient returns the controller of the clients of chains in a store.
func NewClient(db *store.DB) customize.Controller { return clientController{db} }

type clientController struct{ db *store.DB }

// Customize implements customize.Controller: pods of clients get the labels that their chains select.
func (s clientController) Customize(ctx context.Context, d customize.Deployment) (out customize.Edits, err error) {
	if err := d.CheckIntent(ctx, s.db, "SfcClientIntent", clients); err != nil {
		return out, err
	}
	group, ok := v2.GroupOf(d.Group)
	if !ok {
		return out, errs.New(errs.Internal, d.Group+" is no deployment intent group")
	}
	found, err := read[v2.ChainClient](ctx, s.db, store.Key(d.Group+"/"+clients), maxClients)
	if err != nil {
		return out, err
	}
	own, err := s.namespace(ctx, d, group)
	if err != nil {
		return out, err
	}
	for _, item := range found {
		c := client{item.Value.Spec, d.Origin(item.Doc.Key), d.App(item.Value.Spec.App), group, own}
		if len(c.app.Clusters) == 0 {
			continue // the app is not deployed
		}
		if err := c.addTo(ctx, s.db, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// client is a client of a chain.
type client struct {
	v2.ChainClientSpec
	origin string
	app    customize.App
	group  v2.GroupKey
	own    namespace
}

// addTo adds the labels of the client's pods, and what keeps the chain from selecting them.
func (c client) addTo(ctx context.Context, db *store.DB, out *customize.Edits) error {
	find := func(text string) {
		out.Findings = append(out.Findings, customize.Finding{App: c.app.Name, Text: c.origin + ": " + text})
	}
	chain := store.Key(c.ChainStoreKey(c.group))
	chosen, err := read[v2.ChainClientSelector](ctx, db, chain+"/"+selectors, maxSelectors)
	if err != nil {
		return err
	}
	chosen = slices.DeleteFunc(chosen, func(s store.Item[v2.ChainClientSelector]) bool { return s.Value.Spec.ChainEnd != c.ChainEnd })
	if len(chosen) == 0 {
		find(fmt.Sprintf("its pods are not selected, because %s has no client selector at its %s end", chain, c.ChainEnd))
	}
	labels := map[string]string{}
	for _, s := range chosen {
		pods, namespaces := s.Value.Spec.PodSelector, s.Value.Spec.NamespaceSelector
		for _, k := range slices.Sorted(maps.Keys(pods.MatchLabels)) {
			if had, known := labels[k]; known && had != pods.MatchLabels[k] {
				return errs.New(errs.Invalid, fmt.Sprintf("%s: the selectors at the %s end of %s want label %s both as %s and %s; a pod has it once", c.origin, c.ChainEnd, chain, k, had, pods.MatchLabels[k]))
			}
			labels[k] = pods.MatchLabels[k]
		}
		name := path.Base(string(s.Doc.Key))
		if len(pods.MatchExpressions)+len(namespaces.MatchExpressions) > 0 {
			find(fmt.Sprintf("selector %s of the chain has matchExpressions; the pods and their namespace must meet them without EMCO's help", name))
		}
		if text := c.own.lacks(namespaces, c.ChainGroup(c.group) == c.group); text != "" {
			find(fmt.Sprintf("selector %s of the chain %s", name, text))
		}
	}
	if len(labels) > 0 {
		label(out, c.app, c.WorkloadResource, c.ResourceType, c.origin, labels)
	}
	return nil
}

// namespace is the namespace of a deployment.
type namespace struct {
	name   string
	labels map[string]string
	mend   string // how it gets labels
}

// namespace returns the namespace that the objects of a deployment are in, with the labels that EMCO gives it.
func (s clientController) namespace(ctx context.Context, d customize.Deployment, key v2.GroupKey) (namespace, error) {
	out := namespace{d.Namespace, map[string]string{namespaceName: d.Namespace}, "label it on the clusters"}
	group, err := get[v2.DeploymentIntentGroup](ctx, s.db, store.Key(d.Group))
	if err != nil {
		return out, err
	}
	of := v2.LogicalCloudKey{Project: key.CompositeApp.Project, Name: group.Spec.LogicalCloud}
	cloud, err := get[v2.LogicalCloud](ctx, s.db, store.Key(of.StoreKey()))
	if err != nil {
		return out, err
	}
	if cloud.Spec.Level != v2.LevelAdmin {
		maps.Copy(out.labels, cloud.Spec.Labels)
		out.mend = "add it to spec.labels of logical cloud " + group.Spec.LogicalCloud + ", and update that"
	}
	return out, nil
}

// lacks returns what keeps a selector from selecting the namespace; empty if nothing does. A selector without
// conditions selects the namespace of its own deployment.
func (n namespace) lacks(s v2.LabelSelector, own bool) string {
	if s.Empty() && !own {
		return fmt.Sprintf("selects pods in the namespace of its own deployment; if that is not %s, give it a namespaceSelector", n.name)
	}
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		if want := s.MatchLabels[key]; n.labels[key] != want {
			return fmt.Sprintf("selects namespaces with the label %s=%s, which namespace %s does not have from EMCO; %s", key, want, n.name, n.mend)
		}
	}
	return ""
}

func get[T any](ctx context.Context, db *store.DB, key store.Key) (out T, err error) {
	doc, err := db.Get(ctx, key)
	if err != nil {
		return out, err
	}
	return store.Decode[T](doc)
}
