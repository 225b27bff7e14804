// Package karmada runs the control plane of Karmada against a cluster of a bed, and lets other clusters join it.
//
//	objects, policies ──> kube-apiserver ──> karmada-webhook, karmada-aggregated-apiserver
//	                         ▲       ▲
//	          karmada-scheduler     karmada-controller-manager ──push──> member
//	                         └──pull── karmada-agent of a member
package karmada

import (
	"context"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/addon"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/port"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/probe"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/process"
)

// The namespaces of Karmada: of its own objects, and of the credentials of members.
const (
	system  = "karmada-system"
	members = "karmada-cluster"
)

const part = "karmada"

// Karmada is a running control plane.
type Karmada struct{ *addon.Addon }

// Start builds what is missing, installs the CRDs, webhooks and the API of clusters, starts the control plane and waits
// until it is ready. The caller stops it before its cluster. When Start fails nothing is left running.
func Start(ctx context.Context, c *cluster.Cluster) (*Karmada, error) {
	a, err := addon.Start(ctx, c, part, func(ctx context.Context, a *addon.Addon) error { return (&Karmada{a}).start(ctx) })
	if err != nil {
		return nil, err
	}
	return &Karmada{a}, nil
}

func (k *Karmada) start(ctx context.Context) error {
	if err := k.Define(ctx, "crds.yaml"); err != nil {
		return err
	}
	if err := k.Cluster().Apply(ctx, namespaces); err != nil {
		return err
	}
	for _, start := range []func(context.Context) error{k.webhook, k.apiserver, k.manager, k.scheduler} {
		if err := process.Retry(func() error { return start(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

const namespaces = `apiVersion: v1
kind: Namespace
metadata: {name: ` + system + `}
---
apiVersion: v1
kind: Namespace
metadata: {name: ` + members + `}
`

// webhook starts the admission of policies, and points the API server to it.
func (k *Karmada) webhook(ctx context.Context) error {
	ports, err := port.Pick(1)
	if err != nil {
		return err
	}
	dir := filepath.Join(k.Dir(), "webhook")
	if err := k.identity(dir, "karmada-webhook"); err != nil {
		return err
	}
	address := port.Address(ports[0])
	err = k.Run(ctx, addon.Program{Name: "karmada-webhook", Args: []string{
		"--kubeconfig=" + k.Cluster().Kubeconfig(), "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(ports[0]), "--cert-dir=" + dir,
		"--metrics-bind-address=0", "--health-probe-bind-address=0",
	}, Ready: func(ctx context.Context) error { return probe.TCP(ctx, address) }})
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(k.Part(), "webhooks.yaml"))
	if err != nil {
		return err
	}
	return k.Cluster().Apply(ctx, webhooks(string(text), address, k.Cluster().CA()))
}

// webhooks fills in Karmada's template of its webhooks.
func webhooks(template, address string, ca []byte) string {
	return strings.NewReplacer(
		"https://karmada-webhook.karmada-system.svc:443", "https://"+address,
		"{{caBundle}}", base64.StdEncoding.EncodeToString(ca),
	).Replace(template)
}

const apiService = "karmada-aggregated-apiserver"

// apiserver starts the API of clusters, which the API server of the cluster then also serves.
func (k *Karmada) apiserver(ctx context.Context) error {
	ports, err := port.Pick(1)
	if err != nil {
		return err
	}
	dir, c := filepath.Join(k.Dir(), "apiserver"), k.Cluster()
	if err := k.identity(dir, apiService, apiService+"."+system+".svc"); err != nil {
		return err
	}
	address := port.Address(ports[0])
	err = k.Run(ctx, addon.Program{Name: apiService, Args: []string{
		"--kubeconfig=" + c.Kubeconfig(), "--authentication-kubeconfig=" + c.Kubeconfig(), "--authorization-kubeconfig=" + c.Kubeconfig(),
		"--etcd-servers=" + c.Bed().EtcdURL(), "--etcd-prefix=/karmada/" + c.Name(), "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(ports[0]),
		"--tls-cert-file=" + filepath.Join(dir, "tls.crt"), "--tls-private-key-file=" + filepath.Join(dir, "tls.key"),
	}, Ready: func(ctx context.Context) error { return probe.TCP(ctx, address) }})
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, api(ports[0], c.CA())); err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, "wait", "--for=condition=Available", "--timeout=120s", "apiservice/v1alpha1.cluster.karmada.io")
	return err
}

// api makes the API server ask a port of this machine for the API of clusters.
func api(port int, ca []byte) string {
	return strings.NewReplacer("PORT", strconv.Itoa(port), "CA", base64.StdEncoding.EncodeToString(ca)).Replace(`apiVersion: v1
kind: Service
metadata: {name: karmada-aggregated-apiserver, namespace: karmada-system}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1alpha1.cluster.karmada.io}
spec:
  caBundle: CA
  group: cluster.karmada.io
  groupPriorityMinimum: 2000
  service: {name: karmada-aggregated-apiserver, namespace: karmada-system, port: PORT}
  version: v1alpha1
  versionPriority: 10
`)
}

// identity writes a certificate that the cluster's authority signed to a folder.
func (k *Karmada) identity(dir, name string, hosts ...string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return k.Cluster().Issue(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), name, hosts...)
}

func (k *Karmada) manager(ctx context.Context) error {
	return controller(ctx, k.Addon, "karmada-controller-manager", "--kubeconfig="+k.Cluster().Kubeconfig())
}

func (k *Karmada) scheduler(ctx context.Context) error {
	return controller(ctx, k.Addon, "karmada-scheduler", "--kubeconfig="+k.Cluster().Kubeconfig())
}

// controller starts a program with Karmada's defaults, as its own leader, and waits until it is healthy.
func controller(ctx context.Context, a *addon.Addon, name string, args ...string) error {
	ports, err := port.Pick(1)
	if err != nil {
		return err
	}
	address := port.Address(ports[0])
	return a.Run(ctx, addon.Program{
		Name: name, Args: append(args, "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address="+address),
		Ready: func(ctx context.Context) error { return probe.HTTP(ctx, "http://"+address+"/healthz", http.StatusOK) },
	})
}
