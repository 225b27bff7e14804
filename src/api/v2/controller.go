package v2

// Controller registers a placement or action controller of the orchestrator, or
// rsync. The keys of group intents are names of controllers.
type Controller struct {
	Named
	Spec ControllerSpec `json:"spec"` // the gRPC address, and the place in the order of calls
}

// ControllerSpec holds the gRPC address of a controller, and its place in the order of calls.
type ControllerSpec struct {
	Host     string `json:"host"`     // where it serves gRPC
	Port     int    `json:"port"`     // where it serves gRPC
	Type     string `json:"type"`     // "placement" or "action"; rsync has none
	Priority int    `json:"priority"` // lower is called earlier
}

// Limits of controllers in upstream EMCO.
const (
	maxHost     = 253
	maxType     = 48
	maxPort     = 50000
	maxDTCPort  = 65535
	maxPriority = 100
)

// Validate requires host and port; upstream EMCO accepts controllers without an address.
func (r *Controller) Validate() error {
	c := begin(&r.Named)
	c.endpoint(r.Spec.Host, r.Spec.Port, maxPort)
	c.text("spec.type", r.Spec.Type, maxType)
	c.between("spec.priority", r.Spec.Priority, 0, maxPriority)
	return c.err()
}

// ClmController registers a controller that is notified of new and deleted clusters.
type ClmController struct {
	Named
	Spec ClmControllerSpec `json:"spec"` // the gRPC address, and the place in the order of calls
}

// ClmControllerSpec has no type.
type ClmControllerSpec struct {
	Host     string `json:"host"`     // where it serves gRPC
	Port     int    `json:"port"`     // where it serves gRPC
	Priority int    `json:"priority"` // lower is called earlier
}

// Validate requires host and port.
func (r *ClmController) Validate() error {
	c := begin(&r.Named)
	c.endpoint(r.Spec.Host, r.Spec.Port, maxPort)
	c.between("spec.priority", r.Spec.Priority, 0, maxPriority)
	return c.err()
}

// DtcController registers a controller that the traffic controller calls.
type DtcController struct {
	Named
	Spec ControllerSpec `json:"spec"` // the gRPC address, and the place in the order of calls
}

// Validate requires all members; the type must be "action", as in upstream EMCO.
func (r *DtcController) Validate() error {
	c := begin(&r.Named)
	c.endpoint(r.Spec.Host, r.Spec.Port, maxDTCPort)
	if r.Spec.Type != "action" {
		c.fail("spec.type", `%s is not "action"`, quote(r.Spec.Type))
	}
	c.between("spec.priority", r.Spec.Priority, 1, maxPriority)
	return c.err()
}

func (c *violationList) endpoint(host string, port, highest int) {
	if host == "" {
		c.fail("spec.host", "missing")
	}
	c.text("spec.host", host, maxHost)
	if host != "" && !hostPattern.MatchString(host) {
		c.fail("spec.host", "%s is neither a host name nor an address", quote(host))
	}
	c.between("spec.port", port, 1, highest)
}
