package appcontext

import (
	"crypto/rand"
	"math"
	"math/big"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// HeadID identifies a head: it is the id of the document that the head belongs to.
type HeadID string

// Deployment returns the deployment of a head that has inherited none; see Head.Deployment.
func (id HeadID) Deployment() v2.DeploymentID { return v2.DeploymentID(id) }

// FirstHead returns the head that a deployment began with. A migration may have passed the
// deployment to another head since.
func FirstHead(d v2.DeploymentID) HeadID { return HeadID(d) }

// NewContextID returns a new id in the form of upstream's run-time contexts: a positive number of
// 63 bits, in decimal.
func NewContextID() string {
	n, err := rand.Int(rand.Reader, big.NewInt(math.MaxInt64-1))
	if err != nil {
		panic("no random numbers: " + err.Error()) // crypto/rand.Reader never fails
	}
	return n.Add(n, big.NewInt(1)).String()
}
