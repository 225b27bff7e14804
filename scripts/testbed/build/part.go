package build

import (
	"fmt"
	"slices"
)

// partRecipe is one wrapper module of folder parts, and its products.
type partRecipe struct {
	name     string
	about    string
	ldflags  string
	tags     string // of the build, with commas
	cgo      bool   // needs a C compiler
	programs []binaryRecipe
	copies   []textExtract
	folders  []folderCopy
}

// binaryRecipe is one separately linked binary.
type binaryRecipe struct {
	name  string
	pkg   string   // import path, or . for the main of the wrapper
	links []string // other names of the same binary
}

// textExtract is text of a pinned module: the files, in order, joined as YAML documents.
type textExtract struct {
	name   string
	module string
	files  []string // relative to the module; patterns are allowed
}

// folderCopy is a folder of a pinned module, with its whole content.
type folderCopy struct {
	name   string // in the module, and of the copy
	module string
}

const (
	kubeVersion  = "v1.34.4"
	strip        = "-s -w"
	giteaLdflags = strip + " -X main.Version=1.26.0"
	kubeLdflags  = strip +
		" -X k8s.io/component-base/version.gitVersion=" + kubeVersion +
		" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34" +
		" -X k8s.io/client-go/pkg/version.gitVersion=" + kubeVersion
)

// Names returns the names of all parts, in build order.
func Names() []string {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return names
}

// About returns one line about a part; empty for an unknown name.
func About(name string) string {
	p, _ := find(name)
	return p.about
}

func find(name string) (partRecipe, error) {
	all := parts()
	i := slices.IndexFunc(all, func(p partRecipe) bool { return p.name == name })
	if i < 0 {
		return partRecipe{}, fmt.Errorf("unknown part %q: use one of %v", name, Names())
	}
	return all[i], nil
}

func parts() []partRecipe {
	return []partRecipe{
		{
			name: "etcd", about: "etcd, the store of all clusters of a bed", ldflags: strip,
			programs: []binaryRecipe{{name: "etcd", pkg: "go.etcd.io/etcd/server/v3"}},
		},
		{
			name: "kube", about: "kube-apiserver, kube-controller-manager, kube-scheduler and kubectl in one binary", ldflags: kubeLdflags,
			programs: []binaryRecipe{{name: "kube", pkg: ".", links: []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}}},
		},
		{
			name: "kwok", about: "kwok, which simulates the nodes, and its stages", ldflags: strip,
			programs: []binaryRecipe{{name: "kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok"}},
			copies: []textExtract{{name: "stages.yaml", module: "sigs.k8s.io/kwok", files: []string{
				"kustomize/stage/node/fast/node-initialize.yaml",
				"kustomize/stage/node/heartbeat/node-heartbeat.yaml",
				"kustomize/stage/pod/fast/pod-ready.yaml",
				"kustomize/stage/pod/fast/pod-complete.yaml",
				"kustomize/stage/pod/fast/pod-delete.yaml",
			}}},
		},
		{
			name: "flux", about: "source-controller, kustomize-controller and their CRDs", ldflags: strip,
			programs: []binaryRecipe{
				{name: "source-controller", pkg: "github.com/fluxcd/source-controller"},
				{name: "kustomize-controller", pkg: "github.com/fluxcd/kustomize-controller"},
			},
			copies: []textExtract{
				{name: "source-crds.yaml", module: "github.com/fluxcd/source-controller", files: []string{"config/crd/bases/*.yaml"}},
				{name: "kustomize-crds.yaml", module: "github.com/fluxcd/kustomize-controller", files: []string{"config/crd/bases/*.yaml"}},
			},
		},
		{
			name: "gitea", about: "Gitea, a Git server with users, tokens and protected branches", ldflags: giteaLdflags,
			tags: "sqlite,sqlite_unlock_notify", cgo: true,
			programs: []binaryRecipe{{name: "gitea", pkg: "code.gitea.io/gitea"}},
			folders:  []folderCopy{{"options", "code.gitea.io/gitea"}, {"templates", "code.gitea.io/gitea"}},
		},
		{
			name: "versitygw", about: "Versity S3 Gateway, which serves a folder as buckets", ldflags: strip,
			programs: []binaryRecipe{{name: "versitygw", pkg: "github.com/versity/versitygw/cmd/versitygw"}},
		},
		{
			name: "registry", about: "the registry of the CNCF distribution, over a folder", ldflags: strip,
			programs: []binaryRecipe{{name: "registry", pkg: "."}},
		},
		{
			name: "opa", about: "Open Policy Agent's server, over policies in memory", ldflags: strip,
			programs: []binaryRecipe{{name: "opa", pkg: "."}},
		},
		{
			name: "ferretdb", about: "FerretDB, which speaks MongoDB's protocol, one message at a time", ldflags: strip,
			tags:     "ferretdb_no_postgresql",
			programs: []binaryRecipe{{name: "ferretdb", pkg: "."}},
		},
		{
			name: "sops", about: "SOPS, which encrypts files, and age-keygen", ldflags: strip,
			programs: []binaryRecipe{{name: "sops", pkg: "github.com/getsops/sops/v3/cmd/sops"}, {name: "age-keygen", pkg: "filippo.io/age/cmd/age-keygen"}},
		},
		{
			name: "caddy", about: "Caddy, a reverse proxy", ldflags: strip,
			programs: []binaryRecipe{{name: "caddy", pkg: "github.com/caddyserver/caddy/v2/cmd/caddy"}},
		},
		{
			name: "argocd", about: "Argo CD's controllers, repository server and API server, a Redis in memory, and the CRDs", ldflags: strip,
			programs: []binaryRecipe{{name: "argocd", pkg: ".", links: []string{
				"argocd-application-controller", "argocd-applicationset-controller", "argocd-repo-server", "argocd-server", "argocd-redis",
			}}},
			copies: []textExtract{{name: "crds.yaml", module: "github.com/argoproj/argo-cd/v3", files: []string{"manifests/crds/*-crd.yaml"}}},
		},
		{
			name: "karmada", about: "Karmada's control plane, the agent of its members, its CRDs and webhooks", ldflags: strip,
			programs: []binaryRecipe{{name: "karmada", pkg: ".", links: []string{
				"karmada-controller-manager", "karmada-scheduler", "karmada-webhook", "karmada-aggregated-apiserver", "karmada-agent",
			}}},
			copies: []textExtract{
				{name: "crds.yaml", module: "github.com/karmada-io/karmada", files: []string{"charts/karmada/_crds/bases/*/*.yaml"}},
				{name: "webhooks.yaml", module: "github.com/karmada-io/karmada", files: []string{"artifacts/deploy/webhook-configuration.yaml"}},
			},
		},
		{
			name: "ocm", about: "Open Cluster Management's controllers of placements and ManifestWorks, the agent of its clusters, and the CRDs", ldflags: strip,
			programs: []binaryRecipe{{name: "ocm", pkg: ".", links: []string{"ocm-placement", "ocm-work-manager", "ocm-work-agent"}}},
			copies: []textExtract{
				{name: "crds.yaml", module: "open-cluster-management.io/ocm", files: []string{
					"manifests/cluster-manager/hub/*_clusters.open-cluster-management.io_*.crd.yaml", "manifests/cluster-manager/hub/*_work.open-cluster-management.io_*.crd.yaml",
				}},
				{name: "agent-crds.yaml", module: "open-cluster-management.io/ocm", files: []string{"manifests/klusterlet/managed/*_work.open-cluster-management.io_*.crd.yaml"}},
			},
		},
		{
			name: "temporal", about: "a Temporal server over a file of SQLite", ldflags: strip,
			programs: []binaryRecipe{{name: "temporal", pkg: "."}},
		},
	}
}
