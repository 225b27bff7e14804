package karmada

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/addon"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/process"
)

// memberTimeout limits the time until a member is ready.
const memberTimeout = 3 * time.Minute

// tokenLife is how long the control plane's token of a member is valid: no bed lives longer. The API server of the member
// issues it, so that a bare cluster can be a member.
const tokenLife = 24 * time.Hour

// Join makes a cluster a member that the control plane writes to, as "karmadactl join" does: it gets a service account
// with all rights. It returns when the member is ready.
func (k *Karmada) Join(ctx context.Context, name string, member *cluster.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	token, err := grant(ctx, member, "karmada")
	if err != nil {
		return fmt.Errorf("member %s: %w", name, err)
	}
	if err := member.Apply(ctx, binding); err != nil {
		return err
	}
	text, err := json.Marshal(pushed(name, member.Server(), token, member.CA()))
	if err != nil {
		return err
	}
	if err := k.Cluster().Apply(ctx, string(text)); err != nil {
		return err
	}
	return k.ready(ctx, name)
}

// binding gives the control plane's account all rights in a member.
const binding = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: karmada}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects:
- {kind: ServiceAccount, name: karmada, namespace: karmada-cluster}
`

// grant makes a service account of a member with a token, and a Secret that has it. In a bare cluster no controller writes the
// Secret.
func grant(ctx context.Context, member *cluster.Cluster, account string) (token string, err error) {
	if err := member.Apply(ctx, fmt.Sprintf(accountObjects, account)); err != nil {
		return "", err
	}
	if token, err = member.Kubectl(ctx, "create", "token", account, "--namespace="+members, "--duration="+tokenLife.String()); err != nil {
		return "", err
	}
	token = strings.TrimSpace(token)
	text, err := json.Marshal(tokenSecret(account, token, member.CA()))
	if err != nil {
		return "", err
	}
	return token, member.Apply(ctx, string(text))
}

const accountObjects = `apiVersion: v1
kind: Namespace
metadata: {name: karmada-cluster}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: %s, namespace: karmada-cluster}
`

// tokenSecret is what the token controller of a whole cluster writes for an account.
func tokenSecret(account, token string, ca []byte) jsonObject {
	return jsonObject{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
		"metadata": jsonObject{"name": account, "namespace": members, "annotations": jsonObject{"kubernetes.io/service-account.name": account}},
		"data":     map[string][]byte{"token": []byte(token), "ca.crt": ca, "namespace": []byte(members)},
	}
}

type jsonObject map[string]any

// pushed returns the objects of a member in mode push, as a list.
func pushed(name, server, token string, ca []byte) jsonObject {
	secret := jsonObject{
		"apiVersion": "v1", "kind": "Secret", "metadata": jsonObject{"name": name, "namespace": members},
		"data": map[string][]byte{"caBundle": ca, "token": []byte(token)},
	}
	entry := jsonObject{
		"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": jsonObject{"name": name},
		"spec": jsonObject{"syncMode": "Push", "apiEndpoint": server, "secretRef": jsonObject{"name": name, "namespace": members}},
	}
	return jsonObject{"apiVersion": "v1", "kind": "List", "items": []jsonObject{secret, entry}}
}

func (k *Karmada) ready(ctx context.Context, name string) error {
	_, err := k.Cluster().Kubectl(ctx, "wait", "--for=condition=Ready", "--timeout="+memberTimeout.String(), "clusters.cluster.karmada.io/"+name)
	return err
}

// Agent is the running agent of a member.
type Agent struct{ *addon.Addon }

// StartAgent makes a cluster a member that pulls, and starts its agent. It returns when the member is ready. The caller
// stops the agent before its cluster. When StartAgent fails nothing is left running.
func (k *Karmada) StartAgent(ctx context.Context, name string, member *cluster.Cluster) (*Agent, error) {
	a, err := addon.Start(ctx, member, part, func(ctx context.Context, a *addon.Addon) error {
		for _, account := range []string{"karmada-impersonator", "karmada-" + name} { // whose tokens the agent hands to the control plane
			if _, err := grant(ctx, member, account); err != nil {
				return err
			}
		}
		err := process.Retry(func() error {
			return controller(ctx, a, "karmada-agent", "--karmada-kubeconfig="+k.Cluster().Kubeconfig(),
				"--cluster-name="+name, "--cluster-api-endpoint="+member.Server())
		})
		if err != nil {
			return err
		}
		return k.ready(ctx, name)
	})
	if err != nil {
		return nil, err
	}
	return &Agent{a}, nil
}
