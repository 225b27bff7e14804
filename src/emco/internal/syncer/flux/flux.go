// Package flux holds the sync backends "fluxcd", "oci" and "s3": in addition to the files of a target it
// writes the objects that make Flux (v2.0 and later) read them from Git, a registry or a bucket.
//
//	clusters/<provider>+<cluster>/
//	├── <id>.yaml                          GitRepository, read from this branch
//	├── kust<id>.yaml                      one Kustomization per app
//	└── context/<id>/
//	    ├── kustomization.yaml             keeps Flux's own bootstrap out
//	    └── app/<app>/<name>+<Kind>.yaml
//
// Flux is bootstrapped on clusters/<provider>+<cluster>. It applies the pointer files there,
// and would also apply everything below "context", as cluster admin and all apps as one
// unit. It does not search a directory with a kustomization.yaml, but takes it as a base;
// ours is empty. Each app has its own Kustomization, so that an app that cannot be applied
// stops no other.
package flux

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
	// Timeout limits one attempt to build and apply an app; seconds or a duration; default 60 s.
	Timeout syncobjects.Duration `json:"timeOut,omitempty"`
	// Interval is the time between two checks: Flux reads the branch and compares the cluster with it; default 60 s.
	Interval syncobjects.Duration `json:"syncInterval,omitempty"`
	// Drift is the time between two comparisons of the cluster with what Flux has read, if that must be longer than
	// syncInterval; Flux applies a change of the branch without waiting for it; default: syncInterval.
	Drift syncobjects.Duration `json:"driftInterval,omitempty"`
	// Retry is the time that Flux waits after a failed attempt; default 60 s.
	Retry syncobjects.Duration `json:"retryInterval,omitempty"`
	// SecretRef names the Secret in flux-system on the edge with the credential
	// for a private repository. EMCO never writes the credential.
	SecretRef string `json:"secretRef,omitempty"`
	// ServiceAccount is the account in flux-system that applies apps; default: that of the
	// logical cloud, or Flux's own if the cloud has none.
	ServiceAccount string `json:"serviceAccountName,omitempty"`
	// DependsOn is "native" if Flux must wait for dependencies too; see below.
	DependsOn string `json:"dependsOn,omitempty"`
	// DecryptionProvider is "sops" if Flux must decrypt encrypted files.
	DecryptionProvider string `json:"decryptionProvider,omitempty"`
	// DecryptionSecretRef names the Secret in flux-system on the edge with the decryption keys.
	DecryptionSecretRef string `json:"decryptionSecretRef,omitempty"`
	// Suspend is "true" if Flux must stop: it then applies nothing new and does not undo manual changes.
	Suspend syncobjects.Flag `json:"suspend,omitempty"`
}

// Values of options.
const (
	native = "native"
	sops   = "sops"
)

// New returns the backend.
func New(o Options) (syncer.Backend, error) {
	if err := check(o); err != nil {
		return nil, err
	}
	return backend{
		Options:  o,
		writer:   syncer.NewWriterWith(syncer.Keep(), map[string][]byte{"kustomization.yaml": []byte(barrier)}),
		timeout:  o.Timeout.Or(syncobjects.DefaultInterval),
		interval: o.Interval.Or(syncobjects.DefaultInterval),
		drift:    o.Drift.Or(o.Interval.Or(syncobjects.DefaultInterval)),
		retry:    o.Retry.Or(syncobjects.DefaultInterval),
	}, nil
}

// check refuses what Kubernetes or Flux would refuse on the edge, out of the user's sight.
func check(o Options) error {
	var bad string
	switch {
	case o.DependsOn != "" && o.DependsOn != native:
		bad = "dependsOn can only be " + native
	case o.DecryptionProvider != "" && o.DecryptionProvider != sops:
		bad = "decryptionProvider can only be " + sops
	case o.DecryptionSecretRef != "" && o.DecryptionProvider == "":
		bad = "decryptionSecretRef is given without decryptionProvider"
	}
	if bad != "" {
		return errs.E(errs.Invalid, "open", "sync backend fluxcd", errors.New(bad))
	}
	return errors.Join(
		pointer.CheckName("fluxcd", "secretRef", o.SecretRef),
		pointer.CheckName("fluxcd", "serviceAccountName", o.ServiceAccount),
		pointer.CheckName("fluxcd", "decryptionSecretRef", o.DecryptionSecretRef),
	)
}

type backend struct {
	Options
	shared                          string // source that the cluster was bootstrapped with; empty: each target has a GitRepository
	sharedKind                      string // of that source: OCIRepository or Bucket
	prefix                          string // of all paths in that source; ends in "/", or is empty
	writer                          *syncer.Writer
	timeout, interval, drift, retry time.Duration
}

// barrier is a kustomization that builds to nothing. It sets an option without effect
// because kustomize refuses one that sets nothing at all.
const barrier = `# Each app below is applied by a Kustomization of its own (see ../../kust*.yaml).
# This file keeps a reconciler of the cluster's directory from applying them as well.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
generatorOptions:
  disableNameSuffixHash: true
`

// Pointers returns the files of the GitRepository, if there is one, and of the Kustomizations.
func (b backend) Pointers(t syncer.Target) []string {
	if b.shared != "" {
		return []string{t.Pointer("kust")}
	}
	return []string{t.Pointer(""), t.Pointer("kust")}
}

// Plan makes the target hold the files of the apps and the pointers for Flux. An app without
// objects has no Kustomization: for Flux a missing directory is an error.
func (b backend) Plan(t syncer.Target, apps []syncer.App) (syncer.Change, error) {
	apps = slices.DeleteFunc(slices.Clone(apps), func(a syncer.App) bool { return len(a.Objects)+len(a.CRDs) == 0 })
	slices.SortFunc(apps, func(a, b syncer.App) int { return cmp.Compare(a.Name, b.Name) })
	files, err := b.writer.Tree(apps)
	if err != nil {
		return syncer.Change{}, err
	}
	kust := git.Edit{Path: t.Pointer("kust")}
	if len(apps) > 0 {
		if kust.File, err = b.kustomizations(t, apps); err != nil {
			return syncer.Change{}, err
		}
	}
	edits := []git.Edit{kust, syncer.EditDir(t.Dir(), files)}
	if b.shared == "" {
		source, err := b.sourceEdit(t, len(apps) > 0)
		if err != nil {
			return syncer.Change{}, err
		}
		edits = append(edits, source)
	}
	slices.SortFunc(edits, func(x, y git.Edit) int { return cmp.Compare(x.Path, y.Path) })
	return syncer.Change{Edits: edits}, nil
}

// sourceEdit writes or removes the GitRepository of a target.
func (b backend) sourceEdit(t syncer.Target, wanted bool) (e git.Edit, err error) {
	e.Path = t.Pointer("")
	if wanted {
		e.File, err = pointer.File([]pointer.Object{b.source(t)})
	}
	return e, err
}

// kustomizations returns one document per app, in order of their names.
func (b backend) kustomizations(t syncer.Target, apps []syncer.App) ([]byte, error) {
	var all []pointer.Object
	for _, a := range apps {
		k, err := b.kustomization(t, a, apps)
		if err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	return pointer.File(all)
}
