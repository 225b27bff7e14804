package v2

// Migrate is the body of a deployment intent group's migrate (EMCO API v2, lifecycle).
type Migrate struct {
	Metadata struct {
		Description string `json:"description"`
	} `json:"metadata"`
	Spec MigrateSpec `json:"spec"`
}

// MigrateSpec names the group that takes over: of the same project and composite app.
type MigrateSpec struct {
	Version string `json:"targetCompositeAppVersion"`
	Group   string `json:"targetDeploymentIntentGroup"`
}

// Validate checks the body. The error is Invalid.
func (m Migrate) Validate() error {
	c := new(violationList)
	c.text("metadata.description", m.Metadata.Description, MaxDescription)
	c.name("spec.targetCompositeAppVersion", m.Spec.Version)
	c.name("spec.targetDeploymentIntentGroup", m.Spec.Group)
	return c.err()
}
