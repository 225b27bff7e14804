package shard

import "github.com/emco-orchestrator/emco/src/emco/internal/appcontext"

// ownership knows which head each deployment belongs to: a migration hands over what one
// head has on clusters to another head, under the id of the first. Only the goroutine that
// follows heads uses it.
type ownership struct {
	heads map[string]appcontext.Head // by uid, as they were last seen
	heirs map[string]string          // by deployment that was handed over: uid of the head that has it
}

func newOwnership() *ownership {
	return &ownership{heads: map[string]appcontext.Head{}, heirs: map[string]string{}}
}

// update notes the state of a head. It returns the deployment that the head is about, and
// whether the head owns it.
func (o *ownership) update(h appcontext.Head) (deployment string, owns bool) {
	o.forget(h.UID)
	o.heads[h.UID] = appcontext.Head{UID: h.UID, Inherited: h.Inherited, MovedTo: h.MovedTo}
	if h.Inherited != "" && h.MovedTo == "" {
		o.heirs[h.Inherited] = h.UID
	}
	return h.Deployment(), o.owns(h)
}

// remove notes that a head was deleted; it returns what update returned before.
func (o *ownership) remove(uid string) (deployment string, owned bool) {
	h, known := o.heads[uid]
	if !known {
		h.UID = uid
	}
	deployment, owned = h.Deployment(), o.owns(h)
	o.forget(uid)
	return deployment, owned
}

func (o *ownership) owns(h appcontext.Head) bool {
	heir, inherited := o.heirs[h.Deployment()]
	return h.MovedTo == "" && (!inherited || heir == h.UID)
}

func (o *ownership) forget(uid string) {
	if d := o.heads[uid].Inherited; o.heirs[d] == uid {
		delete(o.heirs, d)
	}
	delete(o.heads, uid)
}
