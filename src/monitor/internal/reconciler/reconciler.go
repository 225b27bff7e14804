// Package reconciler reads what reconcilers say of their work: which commit they applied,
// what they complain about, and which objects they put on the cluster. Their own types are
// not needed for that; versions that say less are understood as well.
package reconciler

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kinds that are about one app, and carry its label.
var (
	Kustomization = schema.GroupKind{Group: "kustomize.toolkit.fluxcd.io", Kind: "Kustomization"}
	Application   = schema.GroupKind{Group: "argoproj.io", Kind: "Application"}
)

// The kinds that are about a whole deployment, and carry SourceLabel.
var (
	GitRepository = schema.GroupKind{Group: "source.toolkit.fluxcd.io", Kind: "GitRepository"}
	RootSync      = schema.GroupKind{Group: "configsync.gke.io", Kind: "RootSync"}
	RepoSync      = schema.GroupKind{Group: "configsync.gke.io", Kind: "RepoSync"}
)

// SourceLabel is on the objects that the control plane made for whole deployments. Its
// value is the deployment's id.
const SourceLabel = "emco/deployment"

// Applied is what is said of one app.
type Applied struct {
	Name   string
	Commit string // applied last; empty if it is none of Git
	Error  string // why it is not applied, or not kept so
	Ready  bool   // all of Commit is applied, as far as the reconciler knows
	Source string // namespace/name of its GitRepository, empty if it has another source
	Held   []ID   // what was put on the cluster

	Working    bool  // the reconciler is looking again, and calls nothing ready until it is done
	Generation int64 // of the object that is followed; 0 if Working is never said
}

// After is what is said once earlier was said. Reconcilers look again at each interval and
// at each commit, also of others, and while they look they call nothing ready: what they
// said last stands until they are done, unless they were told something else meanwhile.
func (a Applied) After(earlier Applied) (now Applied, stands bool) {
	if !a.Working || a.Generation != earlier.Generation {
		return a, false
	}
	a.Ready, a.Error = earlier.Ready, earlier.Error
	return a, true
}

// Equal reports whether two say the same.
func (a Applied) Equal(b Applied) bool {
	return a.Name == b.Name && a.Commit == b.Commit && a.Error == b.Error && a.Ready == b.Ready && a.Source == b.Source &&
		a.Working == b.Working && a.Generation == b.Generation && slices.Equal(a.Held, b.Held)
}

// ID is an object that was applied.
type ID struct{ Group, Version, Kind, Namespace, Name string }

// Source is what is said of a whole deployment. The zero value says nothing.
type Source struct {
	Deployment string // of which Commit was applied; empty if that is said app by app
	Commit     string
	Error      string
}

// Read reads an object that is about one app; false if it is of no such kind.
func Read(u *unstructured.Unstructured) (Applied, bool) {
	switch u.GroupVersionKind().GroupKind() {
	case Kustomization:
		return readKustomization(u), true
	case Application:
		return readApplication(u), true
	}
	return Applied{}, false
}

// IsApplied reports whether objects of a kind are read by Read.
func IsApplied(gk schema.GroupKind) bool { return gk == Kustomization || gk == Application }

// ReadSource reads an object that is about a whole deployment.
func ReadSource(u *unstructured.Unstructured) Source {
	switch u.GroupVersionKind().GroupKind() {
	case GitRepository:
		_, why := ready(u)
		return Source{Error: why}
	case RootSync, RepoSync:
		return readSync(u)
	}
	return Source{}
}

// IsSource reports whether objects of a kind are read by ReadSource.
func IsSource(gk schema.GroupKind) bool {
	return gk == GitRepository || gk == RootSync || gk == RepoSync
}

func text(u *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, path...)
	return s
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
