// Package syncer says what a sync backend is: a pure function from the objects that
// a cluster shall hold to the exact files that a deployment owns in that cluster's
// part of a Git repository. All input and output sits in the sinks.
package syncer

import (
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/git"
)

// Target is one deployment on one cluster.
type Target struct {
	Cluster    string // <provider>+<cluster>
	Deployment string // the deployment's id, kept through all its revisions
	Namespace  string // the logical cloud's namespace
	Repo       Coordinates
}

// Coordinates tell a reconciler on the edge where to read. They hold no credential.
type Coordinates struct {
	URL    string
	Branch string
}

// App is the desired state of one app on a target. The order of Objects carries no meaning.
type App struct {
	Name    string
	Objects []manifest.Object
	CRDs    []manifest.Object
}

// Change is what a target's files shall be. Edits cover everything that the
// deployment owns on the cluster: applying them is idempotent and removes what left.
type Change struct {
	Edits []git.Edit
}

// Backend maps desired apps to the files that a target owns. Plan is pure: no
// input or output, no clock, same edits for the same set in any order. With no apps the
// plan removes all that the target owns. Backends never write a credential to a file.
type Backend interface {
	Plan(t Target, apps []App) (Change, error)
}
