package v2

import "strconv"

// Rollback is the body of a deployment intent group's rollback.
type Rollback struct {
	Metadata struct {
		Description string `json:"description"`
	} `json:"metadata"`
	Spec RollbackSpec `json:"spec"`
}

// RollbackSpec names the revision to bring back.
type RollbackSpec struct {
	Revision string `json:"revision"` // a number written as a string, as in upstream EMCO
}

// Number checks the body and returns the revision's number, which is above zero. The
// error is Invalid.
func (r Rollback) Number() (int64, error) {
	c := new(violationList)
	c.text("metadata.description", r.Metadata.Description, MaxDescription)
	n, err := strconv.ParseInt(r.Spec.Revision, 10, 64)
	if err != nil || n <= 0 {
		c.fail("spec.revision", "%s is not the number of a revision; write it as a string, such as \"1\"", quote(r.Spec.Revision))
	}
	return n, c.err()
}
