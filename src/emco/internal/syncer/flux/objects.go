package flux

import (
	"fmt"
	"slices"
	"strings"
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/pointer"
)

// namespace is the namespace of Flux and of EMCO's pointer objects.
const namespace = "flux-system"

// longestFetch is the longest timeout of a GitRepository: its schema has no hours.
const longestFetch = 59 * time.Minute

// source returns the GitRepository of a target. Flux keeps only the deployment's directory
// of it.
func (b backend) source(t syncer.Target) pointer.Object {
	ignore := only(t.Dir())
	spec := sourcev1.GitRepositorySpec{
		URL:       t.Repo.URL,
		Interval:  metav1.Duration{Duration: b.interval},
		Timeout:   &metav1.Duration{Duration: min(b.timeout, longestFetch)},
		Reference: &sourcev1.GitRepositoryRef{Branch: t.Repo.Branch},
		Ignore:    &ignore,
	}
	if b.SecretRef != "" {
		spec.SecretRef = &meta.LocalObjectReference{Name: b.SecretRef}
	}
	return pointer.Object{
		APIVersion: sourcev1.GroupVersion.String(), Kind: sourcev1.GitRepositoryKind,
		Metadata: pointer.Metadata{Name: sourceName(t), Namespace: namespace, Labels: pointer.Labels(t, "")},
		Spec:     spec,
	}
}

// kustomization returns the Kustomization of one app of a plan.
//
// It waits for health only if other apps natively depend on the app being ready. Otherwise
// an object that is not ready would block one of Flux's few workers until the timeout, and
// the Kustomization would be not ready during each reconciliation. The agent on the edge
// reports the health of objects.
func (b backend) kustomization(t syncer.Target, a syncer.App, all []syncer.App) (pointer.Object, error) {
	dir, err := t.AppDir(a.Name)
	if err != nil {
		return pointer.Object{}, err
	}
	spec := kustomizev1.KustomizationSpec{
		Interval:           metav1.Duration{Duration: b.drift},
		RetryInterval:      &metav1.Duration{Duration: b.retryOf(a, all)},
		Timeout:            &metav1.Duration{Duration: b.timeout},
		Path:               "./" + b.prefix + dir,
		Prune:              true,
		Suspend:            bool(b.Suspend),
		ServiceAccountName: b.account(t),
		SourceRef:          b.sourceRef(t),
		Decryption:         b.decryption(),
	}
	if b.DependsOn == native {
		spec.DependsOn, spec.Wait = dependencies(t, a, all), awaited(a.Name, all)
	}
	return pointer.Object{
		APIVersion: kustomizev1.GroupVersion.String(), Kind: kustomizev1.KustomizationKind,
		Metadata: pointer.Metadata{Name: kustomizationName(t, a.Name), Namespace: namespace, Labels: pointer.Labels(t, a.Name)},
		Spec:     spec,
	}, nil
}

// soonAgain is the longest retry interval of an app whose kinds another app defines.
const soonAgain = 5 * time.Second

// retryOf returns the time that Flux waits after a failed attempt. All apps are in one commit, so
// Flux may try an app before the one that defines its kinds. It is not made to depend on that
// one, whose other objects may fail: it tries again soon.
func (b backend) retryOf(a syncer.App, all []syncer.App) time.Duration {
	if borrows(a, all) {
		return min(b.retry, soonAgain)
	}
	return b.retry
}

// borrows reports whether an app has objects of a group that another app defines kinds of. The
// name of a definition is "<plural>.<group>".
func borrows(a syncer.App, all []syncer.App) bool {
	groups := map[string]bool{}
	for _, other := range all {
		for _, o := range slices.Concat(other.CRDs, other.Objects) {
			if _, group, ok := strings.Cut(o.ID.Name, "."); ok && other.Name != a.Name && manifest.IsCRD(o.ID) {
				groups[group] = true
			}
		}
	}
	return len(groups) > 0 && slices.ContainsFunc(a.Objects, func(o manifest.Object) bool { return groups[o.ID.Group] })
}

// sourceRef returns the reference to the source of a target's files.
func (b backend) sourceRef(t syncer.Target) kustomizev1.CrossNamespaceSourceReference {
	if b.shared != "" {
		return kustomizev1.CrossNamespaceSourceReference{Kind: b.sharedKind, Name: b.shared}
	}
	return kustomizev1.CrossNamespaceSourceReference{Kind: sourcev1.GitRepositoryKind, Name: sourceName(t)}
}

// account returns the account that applies apps: that of the cluster's sync object, or that
// of the logical cloud. Apps of a confined cloud are applied as the cloud's account alone.
func (b backend) account(t syncer.Target) string {
	if b.ServiceAccount != "" && !t.Cloud.Confined {
		return b.ServiceAccount
	}
	return t.Cloud.Account
}

func (b backend) decryption() *kustomizev1.Decryption {
	if b.DecryptionProvider == "" {
		return nil
	}
	d := kustomizev1.Decryption{Provider: b.DecryptionProvider}
	if b.DecryptionSecretRef != "" {
		d.SecretRef = &meta.LocalObjectReference{Name: b.DecryptionSecretRef}
	}
	return &d
}

// dependencies returns the Kustomizations that an app depends on, without those of apps
// that are not on the cluster: Flux would wait for them forever.
func dependencies(t syncer.Target, a syncer.App, all []syncer.App) []kustomizev1.DependencyReference {
	var out []kustomizev1.DependencyReference
	for _, n := range a.DependsOn {
		if slices.ContainsFunc(all, func(o syncer.App) bool { return o.Name == n.App }) {
			out = append(out, kustomizev1.DependencyReference{Name: kustomizationName(t, n.App)})
		}
	}
	slices.SortFunc(out, func(x, y kustomizev1.DependencyReference) int { return strings.Compare(x.Name, y.Name) })
	return slices.Compact(out)
}

// awaited reports whether other apps depend on an app being ready.
func awaited(app string, all []syncer.App) bool {
	return slices.ContainsFunc(all, func(o syncer.App) bool {
		return slices.Contains(o.DependsOn, syncer.Dependency{App: app, Ready: true})
	})
}

func sourceName(t syncer.Target) string { return pointer.Name("emco-" + string(t.Deployment)) }

func kustomizationName(t syncer.Target, app string) string {
	return pointer.Name("emco-" + string(t.Deployment) + "-" + app)
}

// only returns rules in the form of .gitignore that ignore everything except one directory.
// They follow the rules of files in the repository, and so override them.
func only(dir string) string {
	var out strings.Builder
	out.WriteString("/*\n")
	path := ""
	parts := strings.Split(dir, "/")
	for i, part := range parts {
		path += "/" + escape(part)
		fmt.Fprintf(&out, "!%s/\n", path)
		if i < len(parts)-1 {
			fmt.Fprintf(&out, "%s/*\n", path)
		}
	}
	fmt.Fprintf(&out, "!%s/**\n", path)
	return out.String()
}

// escape escapes the characters of a name that have a meaning in rules. Those with a meaning
// only at the ends of a line ("#", "!", a space) need no escape: rules begin with a slash
// and end with a slash or a star.
func escape(name string) string {
	var out strings.Builder
	for _, r := range name {
		if strings.ContainsRune(`*?[]\`, r) {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}
