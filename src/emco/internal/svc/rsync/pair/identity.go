package pair

import (
	"errors"
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// A cluster that was deleted and registered again is another one, although it has the
// same name: it may be another machine, or another repository. What a deployment asked
// for before that is not put there. When it asks anew, by another revision, the cluster is
// one of which nothing is known. What is to be removed is looked for there all the same:
// only what carries the deployment's id is taken away.

// identify returns a pair that is wished for as it stands towards the cluster that goes
// by its name now.
func (w Desired) identify(p appcontext.Pair) appcontext.Pair {
	now := w.Registrations[p.Key.Cluster]
	switch {
	case now == "" || now == p.Identity:
		return p
	case p.Identity == "":
		p.Identity = now
		return p
	case p.Rev != w.Rev: // asked for anew
		return appcontext.Pair{Key: p.Key, Identity: now}
	}
	p.Applied, p.Commit = "", ""
	if p.Phase == appcontext.Applied {
		p.Phase = appcontext.Pending // it is refused when it comes up
	}
	return p
}

// checkRegistration refuses to put on a cluster what was asked for when another one went by its
// name.
func CheckRegistration(pairs []appcontext.Pair, registration string) error {
	for _, p := range pairs {
		if p.Desired != "" && p.Identity != "" && p.Identity != registration {
			why := errors.New("the cluster was registered anew since this was asked for; update the deployment, or terminate and instantiate it, to have it there")
			return errs.E(errs.Invalid, "deliver", fmt.Sprintf("revision %d to %s", p.Rev, p.Key.Cluster), why)
		}
	}
	return nil
}
