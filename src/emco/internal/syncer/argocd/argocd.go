// Package argocd is the sync backend "argocd": in addition to the files of a target it
// writes the objects that make Argo CD (v2.6 and later) reconcile them.
//
//	clusters/<provider>+<cluster>/
//	├── argo<id>.yaml                      AppProject, and one Application per app
//	└── context/<id>/app/<app>/<name>+<Kind>.yaml
//
// An Application that an operator bootstraps on clusters/<provider>+<cluster>, not
// recursively, applies argo<id>.yaml (an app of apps). Each app has its own Application, so
// that an app that cannot be applied stops no other.
package argocd

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/pointer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
)

// Options are read from the cluster's sync objects.
type Options struct {
	// Retry is the time that Argo CD waits after a failed attempt; it makes five attempts per
	// commit; default 60 s.
	Retry syncobjects.Duration `json:"retryInterval,omitempty"`
	// Timeout is not used: Argo CD has one setting for all Applications, controller.sync.timeout.seconds.
	Timeout syncobjects.Duration `json:"timeOut,omitempty"`
	// Interval is not used: Argo CD has one setting for all Applications, timeout.reconciliation; a webhook is faster.
	Interval syncobjects.Duration `json:"syncInterval,omitempty"`
	// Namespace is the namespace of Argo CD; default argocd.
	Namespace string `json:"argocdNamespace,omitempty"`
	// Server is the target's API server, as in Argo CD's list of clusters; default: Argo CD's own cluster.
	Server string `json:"destinationServer,omitempty"`
	// Name is the name of the cluster in Argo CD's list, instead of destinationServer.
	Name string `json:"destinationName,omitempty"`
	// Project is your own AppProject for the Applications; default: EMCO writes one for the logical cloud.
	Project string `json:"project,omitempty"`
	// CreateNamespace is "true" if Argo CD must create the logical cloud's namespace.
	CreateNamespace syncobjects.Flag `json:"createNamespace,omitempty"`
	// ServerSideApply is "false" if Argo CD must use client-side apply, as kubectl does by default; large objects then fail.
	ServerSideApply *syncobjects.Flag `json:"serverSideApply,omitempty"`
	// DependsOn is "native" if Argo CD must also start dependencies first; see below.
	DependsOn string `json:"dependsOn,omitempty"`
}

// Values of options.
const (
	native           = "native"
	defaultNamespace = "argocd"
	inCluster        = "https://kubernetes.default.svc"
)

// New returns the backend.
func New(o Options) (syncer.Backend, error) {
	var bad string
	switch {
	case o.Server != "" && o.Name != "":
		bad = "destinationServer and destinationName exclude each other"
	case o.DependsOn != "" && o.DependsOn != native:
		bad = "dependsOn can only be " + native
	}
	if bad != "" {
		return nil, errs.E(errs.Invalid, "open", "sync backend argocd", errors.New(bad))
	}
	err := errors.Join(
		pointer.CheckName("argocd", "argocdNamespace", o.Namespace),
		pointer.CheckName("argocd", "project", o.Project),
	)
	if err != nil {
		return nil, err
	}
	o.Namespace = cmp.Or(o.Namespace, defaultNamespace)
	return backend{Options: o, writer: syncer.NewWriter(syncer.Keep()), retry: o.Retry.Or(syncobjects.DefaultInterval)}, nil
}

type backend struct {
	Options
	writer *syncer.Writer
	retry  time.Duration
}

// Pointers returns the file of the AppProject and the Applications.
func (b backend) Pointers(t syncer.Target) []string { return []string{t.Pointer("argo")} }

// Plan makes the target hold the files of the apps and the pointers for Argo CD. An app
// without objects has no Application: for Argo CD a missing directory is an error.
func (b backend) Plan(t syncer.Target, apps []syncer.App) (syncer.Change, error) {
	apps = slices.DeleteFunc(slices.Clone(apps), func(a syncer.App) bool { return len(a.Objects)+len(a.CRDs) == 0 })
	slices.SortFunc(apps, func(a, b syncer.App) int { return cmp.Compare(a.Name, b.Name) })
	files, err := b.writer.Tree(apps)
	if err != nil {
		return syncer.Change{}, err
	}
	edit := git.Edit{Path: t.Pointer("argo")}
	if len(apps) > 0 {
		if edit.File, err = b.pointers(t, apps); err != nil {
			return syncer.Change{}, err
		}
	}
	return syncer.Change{Edits: []git.Edit{edit, syncer.EditDir(t.Dir(), files)}}, nil
}

// pointers returns the AppProject, unless the operator has one, and the Applications in
// order of their apps.
func (b backend) pointers(t syncer.Target, apps []syncer.App) ([]byte, error) {
	var all []pointer.Object
	project := b.Project
	if project == "" {
		own, err := b.project(t)
		if err != nil {
			return nil, err
		}
		project, all = own.Metadata.Name, append(all, own)
	}
	wave := waves(apps)
	for _, a := range apps {
		object, err := b.application(t, a.Name, project)
		if err != nil {
			return nil, err
		}
		if b.DependsOn == native {
			inWave(&object, wave[a.Name])
		}
		all = append(all, object)
	}
	return pointer.File(all)
}
