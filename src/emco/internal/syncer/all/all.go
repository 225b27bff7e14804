// Package all registers every sync backend of this program.
package all

//go:generate go test -run ^TestOptionTables$ -count=1 . -update

import (
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/anthos"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/argocd"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/azurearc"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/azurearc/arm"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/execplugin"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/flux"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/plaingit"
)

// Platforms are the clients of platforms that some backends need. Without its client such a
// backend can only plan and check its options.
type Platforms struct {
	Azure   *arm.Client
	Plugins *execplugin.Programs // nil: no backend "exec"
}

// Backends returns a fresh registry without platforms.
func Backends() *syncer.Registry { return On(Platforms{}) }

// On returns a fresh registry. A backend is a line here and a type in v2.gitOpsTypes. Its reconciler needs a case in
// applierOf of svc/dcm/objects.go, unless it finds accounts in the namespace of the logical cloud. A destination
// that is not Git also needs its keys and Published in syncobjects, a sink, a case in sink/dispatch,
// and its construction in app.
func On(p Platforms) *syncer.Registry {
	r := syncer.NewRegistry()
	syncer.Register(r, v2.Anthos, anthos.New, syncer.Options{
		"syncInterval": "30", "timeOut": "5m", "auth": "token", "secretRef": "emco-git", "caCertSecretRef": "emco-ca", "clusterRole": "edit",
	})
	syncer.Register(r, v2.ArgoCD, argocd.New, syncer.Options{
		"retryInterval": "15s", "argocdNamespace": "argocd", "destinationName": "edge-1",
		"createNamespace": "true", "serverSideApply": "false", "dependsOn": "native",
	})
	syncer.Register(r, v2.Azure, azurearc.NewPlatform(p.Azure).Open, syncer.Options{
		"tenantID": "7b0a6f5c-0000-0000-0000-000000000001", "clientID": "7b0a6f5c-0000-0000-0000-000000000002", "clientSecret": "planted-credential",
		"subscriptionID": "7b0a6f5c-0000-0000-0000-000000000003", "arcResourceGroup": "edge", "arcCluster": "site-1",
		"syncInterval": "30", "readUserName": "reader", "readToken": "planted-credential", "scope": "cluster", "namespace": "flux-system",
	})
	if names := p.Plugins.Names(); len(names) > 0 {
		syncer.Register(r, v2.Exec, p.Plugins.New, syncer.Options{"plugin": names[0]})
	}
	syncer.Register(r, v2.FluxCD, flux.New, syncer.Options{
		"syncInterval": "30", "driftInterval": "10m", "retryInterval": "15s", "timeOut": "2m", "secretRef": "emco-git", "serviceAccountName": "tenant",
		"dependsOn": "native", "decryptionProvider": "sops", "decryptionSecretRef": "sops-age", "suspend": "false",
	})
	syncer.Register(r, v2.PureGit, plaingit.New, syncer.Options{"syncInterval": "30"})
	syncer.Register(r, v2.OCI, flux.NewOCI, syncer.Options{"syncInterval": "30", "sourceName": "emco", "serviceAccountName": "tenant"})
	syncer.Register(r, v2.S3, flux.NewBucket, syncer.Options{"syncInterval": "30", "sourceName": "emco", "prefix": "fleet/edge", "secretRef": "emco-bucket"})
	return r
}
