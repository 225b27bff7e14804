// Package reconcilerstatus reads the status of Flux, Argo CD and Config Sync: the applied commit,
// errors, and the objects that were applied. It does not need their Go types, and reads
// older versions with fewer fields, too.
package reconcilerstatus

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kinds that are about one app, and have its label.
var (
	Kustomization = schema.GroupKind{Group: "kustomize.toolkit.fluxcd.io", Kind: "Kustomization"}
	Application   = schema.GroupKind{Group: "argoproj.io", Kind: "Application"}
)

// The kinds that are about a whole deployment, and have SourceLabel.
var (
	GitRepository = schema.GroupKind{Group: "source.toolkit.fluxcd.io", Kind: "GitRepository"}
	RootSync      = schema.GroupKind{Group: "configsync.gke.io", Kind: "RootSync"}
	RepoSync      = schema.GroupKind{Group: "configsync.gke.io", Kind: "RepoSync"}
)

// SourceLabel is the label of objects that the control plane creates for whole deployments.
// Its value is the deployment's id.
const SourceLabel = "emco/deployment"

// Applied is the status of one app.
type Applied struct {
	Name    string
	Commit  string // applied last; empty if it is not a Git commit
	Error   string // why it is not applied, or why drift is not repaired
	Ready   bool   // the reconciler reports all of Commit as applied
	Source  string // namespace/name of its GitRepository, empty if it has another source
	Objects []ID   // that were applied

	Working    bool  // the reconciler runs again, and reports nothing as ready until it is done
	Generation int64 // of the reconciler's object; 0 for kinds that never report Working
}

// After returns the status after an earlier one. Reconcilers run again at each interval and at
// each commit, also at commits of others, and report nothing as ready while they run. So the
// earlier result holds until they are done, unless their object has changed.
func (a Applied) After(earlier Applied) (now Applied, holds bool) {
	if !a.Working || a.Generation != earlier.Generation {
		return a, false
	}
	a.Ready, a.Error = earlier.Ready, earlier.Error
	return a, true
}

// Equal reports whether two statuses are the same.
func (a Applied) Equal(b Applied) bool {
	return a.Name == b.Name && a.Commit == b.Commit && a.Error == b.Error && a.Ready == b.Ready && a.Source == b.Source &&
		a.Working == b.Working && a.Generation == b.Generation && slices.Equal(a.Objects, b.Objects)
}

// ID identifies an object that was applied.
type ID struct{ Group, Version, Kind, Namespace, Name string }

// DeploymentStatus is the status of a whole deployment. The zero value has no information.
type DeploymentStatus struct {
	Deployment string // whose Commit was applied; empty if each app has its own status
	Commit     string
	Error      string
}

// Read reads an object that is about one app. It returns false for all other kinds.
func Read(u *unstructured.Unstructured) (Applied, bool) {
	switch u.GroupVersionKind().GroupKind() {
	case Kustomization:
		return readKustomization(u), true
	case Application:
		return readApplication(u), true
	}
	return Applied{}, false
}

// ReportsApp reports whether the objects of a kind have the status of one app; Read reads them.
func ReportsApp(gk schema.GroupKind) bool { return gk == Kustomization || gk == Application }

// ReadDeployment reads an object that is about a whole deployment.
func ReadDeployment(u *unstructured.Unstructured) DeploymentStatus {
	switch u.GroupVersionKind().GroupKind() {
	case GitRepository:
		_, why := readReady(u)
		return DeploymentStatus{Error: why}
	case RootSync, RepoSync:
		return readSync(u)
	}
	return DeploymentStatus{}
}

// ReportsDeployment reports whether the objects of a kind have the status of a whole deployment; ReadDeployment
// reads them. A Kubernetes Deployment is none of them.
func ReportsDeployment(gk schema.GroupKind) bool {
	return gk == GitRepository || gk == RootSync || gk == RepoSync
}

func stringField(u *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, path...)
	return s
}
