package shard

import (
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// deploymentOwners knows which head owns each deployment: a migration hands over what one
// head has on clusters to another head, under the id of the first. Only the goroutine that
// follows heads uses it.
type deploymentOwners struct {
	heads map[appcontext.HeadID]appcontext.Head // by id, as they were last seen
	heirs map[v2.DeploymentID]appcontext.HeadID // by deployment that was handed over: the head that has it
}

func newDeploymentOwners() *deploymentOwners {
	return &deploymentOwners{heads: map[appcontext.HeadID]appcontext.Head{}, heirs: map[v2.DeploymentID]appcontext.HeadID{}}
}

// update notes the state of a head. It returns the deployment that the head is about, and
// whether the head owns it.
func (o *deploymentOwners) update(h appcontext.Head) (deployment v2.DeploymentID, owns bool) {
	o.forget(h.UID)
	o.heads[h.UID] = appcontext.Head{UID: h.UID, Inherited: h.Inherited, MovedTo: h.MovedTo}
	if h.Inherited != "" && h.MovedTo == "" {
		o.heirs[h.Inherited] = h.UID
	}
	return h.Deployment(), o.owns(h)
}

// remove notes that a head was deleted; it returns what update returned before.
func (o *deploymentOwners) remove(id appcontext.HeadID) (deployment v2.DeploymentID, owned bool) {
	h, known := o.heads[id]
	if !known {
		h.UID = id
	}
	deployment, owned = h.Deployment(), o.owns(h)
	o.forget(id)
	return deployment, owned
}

func (o *deploymentOwners) owns(h appcontext.Head) bool {
	heir, inherited := o.heirs[h.Deployment()]
	return h.MovedTo == "" && (!inherited || heir == h.UID)
}

func (o *deploymentOwners) forget(id appcontext.HeadID) {
	if d := o.heads[id].Inherited; o.heirs[d] == id {
		delete(o.heirs, d)
	}
	delete(o.heads, id)
}
