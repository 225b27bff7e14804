package pair

import (
	"errors"
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// A cluster that was deleted and registered again is another cluster with the same name:
// it may be another machine, or another repository. What a deployment wanted before is not
// delivered to it. A later revision that wants something there starts from nothing.
// Removals are tried all the same: they only remove what carries the deployment's id.

// withRegistration returns a desired pair as it relates to the registration of its cluster.
func (w Desired) withRegistration(p appcontext.Pair) appcontext.Pair {
	now := w.Registrations[p.Key.Cluster]
	switch {
	case now == "" || now == p.Registration:
		return p
	case p.Registration == "":
		p.Registration = now
		return p
	case p.Rev != w.Rev: // a later revision wants it
		return appcontext.Pair{Key: p.Key, Registration: now}
	}
	p.Applied, p.Commit = "", ""
	if p.Phase == appcontext.Applied {
		p.Phase = appcontext.Pending // CheckRegistration refuses its delivery
	}
	return p
}

// CheckRegistration refuses to deliver a pair that was meant for an earlier cluster of the same
// name, whose registration was meant; now is the registration of today. The pair may lack its Key and Registration.
func CheckRegistration(cluster v2.ClusterKey, p *appcontext.Pair, meant, now string) error {
	if p.Desired == "" || meant == "" || meant == now {
		return nil
	}
	why := errors.New("the cluster was registered again after this revision was requested; update the deployment, or terminate and instantiate it, to place it there")
	return errs.E(errs.Invalid, "deliver", fmt.Sprintf("revision %d to %s", p.Rev, cluster), why)
}
