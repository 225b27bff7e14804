// Package syncer says what a sync backend is: a pure function from the objects that
// a cluster shall hold to the exact files that a deployment owns in that cluster's
// part of a Git repository. All input and output sits in the sinks.
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

// Cloud is the logical cloud that a deployment belongs to, by the bounds that a
// reconciler on the edge can hold its apps to.
type Cloud struct {
	Name     string // "<project>+<logical cloud>", empty if it is not known
	Confined bool   // its apps may have objects in Target.Namespace only
	Account  string // ServiceAccount that its apps are applied as; empty if it has none
}

// Coordinates tell a reconciler on the edge where to read. They hold no credential.
type Coordinates struct {
	URL    string
	Branch string
}

// App is the desired state of one app on a target. The order of Objects carries no meaning.
type App struct {
	Name      string
	Objects   []manifest.Object
	CRDs      []manifest.Object // kept on the cluster when the app leaves
	DependsOn []Dependency      // in no order
}

// Dependency is another app of the deployment that an app comes after. EMCO sees to that
// itself; a backend may repeat it for a cluster that is built anew from its repository.
type Dependency struct {
	App   string
	Ready bool // it is to be ready, else it is enough that it is applied
}

// Change is what a target's files shall be. Edits cover everything that the
// deployment owns on the cluster: applying them is idempotent and removes what left.
// Edits are sorted by path. Their content may be shared between changes and with the
// backend: nobody may write to it.
type Change struct {
	Edits []git.Edit
}

// Backend maps desired apps to the files that a target owns. Plan is pure: no
// input or output, no clock, same edits for the same set in any order. With no apps the
// plan removes all that the target owns. Backends never write a credential to a file.
// Plan may be called by several goroutines at once. Errors are Invalid and name the
// app and the object; safe to show to users.
type Backend interface {
	Plan(t Target, apps []App) (Change, error)
}

// PointerBackend is what a backend also implements when it writes files outside of
// Target.Dir that tell a reconciler where to look.
type PointerBackend interface {
	// Pointers returns the paths of those files, by Target.Pointer or PointerIn. They
	// depend on the target's names alone.
	Pointers(t Target) []string
}
