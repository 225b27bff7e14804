package v2

import (
	"bytes"
	"encoding/json"
)

// OwnResource is a document of a type that a referential schema registers: EMCO keeps it for a controller that is no
// part of EMCO.
type OwnResource struct {
	Named
	Spec json.RawMessage `json:"spec,omitempty"` // an object; the schema may say what it holds
}

func (o *OwnResource) normalize() {
	if string(bytes.TrimSpace(o.Spec)) == "null" {
		o.Spec = nil
	}
}

// Validate checks metadata and the form of spec.
func (o *OwnResource) Validate() error {
	c := begin(&o.Named)
	if spec := bytes.TrimSpace(o.Spec); len(spec) > 0 && spec[0] != '{' {
		c.fail("spec", "must be an object")
	}
	return c.err()
}
