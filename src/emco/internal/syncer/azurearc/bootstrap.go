package azurearc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/azurearc/arm"
)

const (
	version  = "2023-05-01" // of the API of Microsoft.KubernetesConfiguration
	rounds   = 3            // of reading and writing, while others write too
	patience = time.Minute  // for an operation of Azure; after that, the caller retries
	again    = 30 * time.Second
)

// cluster is the path of the cluster below its subscription.
func (o Options) cluster() string {
	return "resourceGroups/" + o.Group + "/providers/Microsoft.Kubernetes/connectedClusters/" + o.Cluster +
		"/providers/Microsoft.KubernetesConfiguration"
}

func (b backend) path(t syncer.Target) string {
	return b.o.cluster() + "/fluxConfigurations/" + name(t)
}

// Bootstrap writes the configuration of the target if it differs from the desired one. A
// write carries the entity tag of what was read; after a concurrent write it starts again.
func (b backend) Bootstrap(ctx context.Context, t syncer.Target, apps []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	azure, err := b.account(t)
	if err != nil {
		return err
	}
	want, err := b.desired(t, apps)
	if err != nil {
		return err
	}
	for range rounds {
		if err = b.converge(ctx, azure, t, want); !errors.Is(err, arm.ErrChanged) {
			return err
		}
	}
	return errs.Throttle("configure", b.o.Cluster, again, err)
}

// account returns the account of the cluster.
func (b backend) account(t syncer.Target) (*arm.Account, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	if b.platform.azure == nil {
		return nil, errs.E(errs.Unavailable, "reach", "Azure", errors.New("this process has no client for Azure"))
	}
	return b.platform.azure.Account(b.o.identity(), b.o.Subscription)
}

// converge reads, compares and writes once.
func (b backend) converge(ctx context.Context, azure *arm.Account, t syncer.Target, want configuration) error {
	was, err := azure.Get(ctx, b.path(t), version)
	if errs.Is(err, errs.NotFound) {
		return b.create(ctx, azure, t, want)
	}
	if err != nil {
		return err
	}
	have, err := parse(was.Body)
	if err != nil {
		return errs.E(errs.Unavailable, "read", b.path(t), errors.New("the answer is not a configuration"))
	}
	if have.like(want) {
		switch p := have.Properties; {
		case p.State.Is("Succeeded"), p.State == "":
			return nil
		case !p.State.Ended():
			return errs.Throttle("configure", b.o.Cluster, again, fmt.Errorf("the operation is not done yet (%s)", p.State))
		}
	}
	return b.put(ctx, azure, t, &was, want)
}

// create writes a new configuration.
func (b backend) create(ctx context.Context, azure *arm.Account, t syncer.Target, want configuration) error {
	if b.o.Extension == "ensure" {
		if err := b.extend(ctx, azure); err != nil {
			return err
		}
	}
	return b.put(ctx, azure, t, nil, want)
}

func (b backend) put(ctx context.Context, azure *arm.Account, t syncer.Target, was *arm.Resource, want configuration) error {
	body, err := json.Marshal(want)
	if err != nil {
		return err
	}
	return azure.Put(ctx, b.path(t), version, was, body)
}

// Release deletes the configuration of the target. Flux prunes its objects when its
// configuration is deleted.
func (b backend) Release(ctx context.Context, t syncer.Target) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	azure, err := b.account(t)
	if err != nil {
		return err
	}
	return azure.Delete(ctx, b.path(t), version)
}

// clusterExtensions are the extensions of a cluster, a handful.
type clusterExtensions struct {
	Value []clusterExtension `json:"value"`
}

type clusterExtension struct {
	Properties struct {
		Type    string `json:"extensionType"`
		Upgrade bool   `json:"autoUpgradeMinorVersion"`
	} `json:"properties"`
}

const fluxExtension = "microsoft.flux"

// extend installs Flux's extension if the cluster has none of that type, under any name.
func (b backend) extend(ctx context.Context, azure *arm.Account) error {
	list, err := azure.Get(ctx, b.o.cluster()+"/extensions", version)
	if err != nil {
		return err
	}
	var have clusterExtensions
	if err := json.Unmarshal(list.Body, &have); err != nil {
		return errs.E(errs.Unavailable, "read", b.o.Cluster, errors.New("the answer is not a list of extensions"))
	}
	for _, e := range have.Value {
		if strings.EqualFold(e.Properties.Type, fluxExtension) {
			return nil
		}
	}
	var want clusterExtension
	want.Properties.Type, want.Properties.Upgrade = fluxExtension, true
	body, err := json.Marshal(want)
	if err != nil {
		return err
	}
	err = azure.Put(ctx, b.o.cluster()+"/extensions/flux", version, nil, body)
	if errors.Is(err, arm.ErrChanged) { // installed concurrently
		return nil
	}
	return err
}
