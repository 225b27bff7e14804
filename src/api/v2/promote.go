package v2

// Promote is the body of a deployment intent group's promotion. It may be empty.
type Promote struct {
	Metadata struct {
		Description string `json:"description"`
	} `json:"metadata"`
	Spec PromoteSpec `json:"spec"`
}

// PromoteSpec says how far a rollout goes on. Without members it ends the only pause of the revision.
type PromoteSpec struct {
	Revision int64 `json:"revision,omitempty"` // the revision that the caller means; another one is not promoted
	Wave     int   `json:"wave,omitempty"`     // end the pauses up to the one after this wave, which counts from 1
	Full     bool  `json:"full,omitempty"`     // let all clusters change now: nothing waits for waves any more
}

// Validate checks the body. The error is Invalid.
func (p Promote) Validate() error {
	c := new(violationList)
	c.text("metadata.description", p.Metadata.Description, MaxDescription)
	if p.Spec.Revision < 0 {
		c.fail("spec.revision", "%d is not the number of a revision", p.Spec.Revision)
	}
	c.between("spec.wave", p.Spec.Wave, 0, maxWaves)
	if p.Spec.Full && p.Spec.Wave > 0 {
		c.fail("spec.full", "excludes wave")
	}
	return c.err()
}
