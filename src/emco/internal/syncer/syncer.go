// Package syncer defines sync backends: pure functions from the desired objects of a
// cluster to the exact files that a deployment owns in the cluster's directory of a branch, an
// artifact or a bucket. Package gitwriter and the sinks do all input and output, with two exceptions: a
// Bootstrapper calls a platform, and package execplugin runs a program that plans. Package all lists
// what a new backend needs.
//
// The package also registers backends with their options (Registry), checks each plan (Owned), and
// writes objects as YAML (Writer).
//
//	clusters/<provider>+<cluster>/                       Target.Root
//	├── <pointer files of the backend>                   Target.Pointer
//	└── context/<id>/                                    Target.Dir
//	    └── app/<app>/<name>+<Kind>.yaml                 Target.Files
package syncer

import (
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/git"
)

// Target is one deployment on one cluster.
type Target struct {
	Cluster    v2.ClusterKey
	Deployment v2.DeploymentID // stays the same through all revisions
	Namespace  string          // the logical cloud's namespace
	Cloud      Cloud
	Repo       Coordinates
	FanOut     bool // the cluster's directory is one level deeper: see Target.Root
}

// Cloud is the logical cloud of a deployment, with the bounds that a reconciler on the edge
// can enforce.
type Cloud struct {
	Name     string // "<project>+<logical cloud>", empty if it is not known
	Confined bool   // its apps may have objects in Target.Namespace only
	Account  string // ServiceAccount that applies its apps; empty if it has none
}

// Coordinates are the address that a reconciler on the edge reads. They hold no credential.
type Coordinates struct {
	URL    string
	Branch string
}

// App is the desired state of one app on a target. Backends ignore the order of Objects; package
// kubeapplier applies in it.
type App struct {
	Name      string
	Objects   []manifest.Object
	CRDs      []manifest.Object // stay on the cluster when the app is removed
	DependsOn []Dependency      // in no order
}

// Dependency is another app of the deployment that an app waits for. EMCO enforces it; a
// backend may repeat it for a cluster that is rebuilt from its repository.
type Dependency struct {
	App   string
	Ready bool // wait until it is ready, not only applied
}

// Change is the desired files of a target. Edits cover everything that the deployment owns
// on the cluster: they are idempotent and remove what is no longer desired. Edits are
// sorted by path. Changes and the backend may share their content, which is read-only.
type Change struct {
	Edits []git.Edit
}

// Backend maps desired apps to the files that a target owns. Plan is pure: no
// input or output, no clock, same edits for the same set in any order. With no apps the
// plan removes everything that the target owns. Backends never write a credential to a
// file. Plan is safe for concurrent use. Errors are Invalid, name the app and the object,
// and are safe to show to users.
type Backend interface {
	Plan(t Target, apps []App) (Change, error)
}

// PointerBackend is implemented by backends that write files outside of Target.Dir which
// point a reconciler at the target's files.
type PointerBackend interface {
	// Pointers returns the paths of those files, made by Target.Pointer or PointerIn. They
	// depend on the target's keys alone.
	Pointers(t Target) []string
}
