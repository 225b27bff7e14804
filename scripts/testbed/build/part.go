package build

import (
	"fmt"
	"slices"
)

// A part is one wrapper module of folder parts, and what is made of it.
type part struct {
	name     string
	about    string
	ldflags  string
	tags     string // of the build, with commas
	cgo      bool   // needs a C compiler
	programs []program
	copies   []extract
	folders  []folder
}

// A program is one binary, linked on its own.
type program struct {
	name  string
	pkg   string   // import path, or . for the main of the wrapper itself
	links []string // other names of the same binary
}

// An extract is text taken from a module that the part pins: the files, in
// order, joined as YAML documents.
type extract struct {
	name   string
	module string
	files  []string // relative to the module; patterns are allowed
}

// A folder is taken from a module that the part pins, with all that is in it.
type folder struct {
	name   string // of the module's folder, and of the copy
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

// Names returns the names of all parts, in the order in which they are built.
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

func find(name string) (part, error) {
	all := parts()
	i := slices.IndexFunc(all, func(p part) bool { return p.name == name })
	if i < 0 {
		return part{}, fmt.Errorf("unknown part %q: use one of %v", name, Names())
	}
	return all[i], nil
}

func parts() []part {
	return []part{
		{
			name: "etcd", about: "etcd, the store of all clusters of a bed", ldflags: strip,
			programs: []program{{name: "etcd", pkg: "go.etcd.io/etcd/server/v3"}},
		},
		{
			name: "kube", about: "kube-apiserver, kube-controller-manager, kube-scheduler and kubectl in one binary", ldflags: kubeLdflags,
			programs: []program{{name: "kube", pkg: ".", links: []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}}},
		},
		{
			name: "kwok", about: "kwok, which plays the nodes, and its stages", ldflags: strip,
			programs: []program{{name: "kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok"}},
			copies: []extract{{name: "stages.yaml", module: "sigs.k8s.io/kwok", files: []string{
				"kustomize/stage/node/fast/node-initialize.yaml",
				"kustomize/stage/node/heartbeat/node-heartbeat.yaml",
				"kustomize/stage/pod/fast/pod-ready.yaml",
				"kustomize/stage/pod/fast/pod-complete.yaml",
				"kustomize/stage/pod/fast/pod-delete.yaml",
			}}},
		},
		{
			name: "flux", about: "source-controller, kustomize-controller and their CRDs", ldflags: strip,
			programs: []program{
				{name: "source-controller", pkg: "github.com/fluxcd/source-controller"},
				{name: "kustomize-controller", pkg: "github.com/fluxcd/kustomize-controller"},
			},
			copies: []extract{
				{name: "source-crds.yaml", module: "github.com/fluxcd/source-controller", files: []string{"config/crd/bases/*.yaml"}},
				{name: "kustomize-crds.yaml", module: "github.com/fluxcd/kustomize-controller", files: []string{"config/crd/bases/*.yaml"}},
			},
		},
		{
			name: "gitea", about: "Gitea, a Git server with users, tokens and protected branches", ldflags: giteaLdflags,
			tags: "sqlite,sqlite_unlock_notify", cgo: true,
			programs: []program{{name: "gitea", pkg: "code.gitea.io/gitea"}},
			folders:  []folder{{"options", "code.gitea.io/gitea"}, {"templates", "code.gitea.io/gitea"}},
		},
		{
			name: "versitygw", about: "Versity S3 Gateway, which serves a folder as buckets", ldflags: strip,
			programs: []program{{name: "versitygw", pkg: "github.com/versity/versitygw/cmd/versitygw"}},
		},
		{
			name: "registry", about: "the registry of the CNCF distribution, over a folder", ldflags: strip,
			programs: []program{{name: "registry", pkg: "."}},
		},
		{
			name: "sops", about: "SOPS, which encrypts files, and what makes keys for it", ldflags: strip,
			programs: []program{{name: "sops", pkg: "github.com/getsops/sops/v3/cmd/sops"}, {name: "age-keygen", pkg: "filippo.io/age/cmd/age-keygen"}},
		},
		{
			name: "argocd", about: "Argo CD's application controller and repository server, a Redis in memory, and the CRDs", ldflags: strip,
			programs: []program{{name: "argocd", pkg: ".", links: []string{"argocd-application-controller", "argocd-repo-server", "argocd-redis"}}},
			copies:   []extract{{name: "crds.yaml", module: "github.com/argoproj/argo-cd/v3", files: []string{"manifests/crds/*-crd.yaml"}}},
		},
	}
}
