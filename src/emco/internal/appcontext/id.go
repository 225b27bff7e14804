package appcontext

import v2 "github.com/emco-orchestrator/emco/src/api/v2"

// HeadID identifies a head: it is the id of the document that the head belongs to.
type HeadID string

// Deployment returns the deployment of a head that has inherited none; see Head.Deployment.
func (id HeadID) Deployment() v2.DeploymentID { return v2.DeploymentID(id) }

// FirstHead returns the head that a deployment began with. A migration may have passed the
// deployment to another head since.
func FirstHead(d v2.DeploymentID) HeadID { return HeadID(d) }
