package rsync

import "github.com/emco-orchestrator/emco/src/emco/internal/appcontext"

// owners knows which head each deployment on clusters belongs to. A migration hands what
// one head has on clusters to another, under the id of the first.
type owners struct {
	heads map[string]appcontext.Head // by uid, as they were last seen
	heirs map[string]string          // deployments that were handed over: uid of the head that has them
}

func newOwners() *owners {
	return &owners{heads: map[string]appcontext.Head{}, heirs: map[string]string{}}
}

// learn takes in a head and returns the deployment that it is about, and whether the
// head has a say in it.
func (o *owners) learn(h appcontext.Head) (deployment string, owns bool) {
	o.drop(h.UID)
	o.heads[h.UID] = appcontext.Head{UID: h.UID, Inherited: h.Inherited, MovedTo: h.MovedTo}
	if h.Inherited != "" && h.MovedTo == "" {
		o.heirs[h.Inherited] = h.UID
	}
	return h.Deployment(), o.owns(h)
}

// lose takes in that a head is gone; it returns what learn would have returned before.
func (o *owners) lose(uid string) (deployment string, owns bool) {
	h, known := o.heads[uid]
	if !known {
		h.UID = uid
	}
	deployment, owns = h.Deployment(), o.owns(h)
	o.drop(uid)
	return deployment, owns
}

func (o *owners) owns(h appcontext.Head) bool {
	heir, inherited := o.heirs[h.Deployment()]
	return h.MovedTo == "" && (!inherited || heir == h.UID)
}

func (o *owners) drop(uid string) {
	if d := o.heads[uid].Inherited; o.heirs[d] == uid {
		delete(o.heirs, d)
	}
	delete(o.heads, uid)
}
