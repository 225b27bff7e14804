package v2

// CompositeProfile is a set of profiles, one for each app of a composite app.
type CompositeProfile struct {
	Named
}

// AppProfile customises one app; its archive is uploaded with the document.
type AppProfile struct {
	Named
	Spec AppProfileSpec `json:"spec"` // the app
}

// AppProfileSpec names the app.
type AppProfileSpec struct {
	App string `json:"app" alias:"app-name"` // the app that the profile customises
}

// Validate checks metadata and the app's name.
func (p *AppProfile) Validate() error {
	c := begin(&p.Named)
	c.name("spec.app", p.Spec.App)
	return c.err()
}
