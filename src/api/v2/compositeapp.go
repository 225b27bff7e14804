package v2

import "strings"

// CompositeApp is several apps that are deployed together. Name and version
// together identify it.
type CompositeApp struct {
	Named
	Spec CompositeAppSpec `json:"spec"`
}

// CompositeAppSpec holds the version.
type CompositeAppSpec struct {
	Version string `json:"compositeAppVersion" alias:"version"`
}

// DocName returns "name/version".
func (a *CompositeApp) DocName() string { return a.Metadata.Name + "/" + a.Spec.Version }

// SetDocName sets those of name and version that are missing.
func (a *CompositeApp) SetDocName(name string) {
	name, version, _ := strings.Cut(name, "/")
	a.Metadata.SetDocName(name)
	if a.Spec.Version == "" {
		a.Spec.Version = version
	}
}

// Validate demands a version that is a name. EMCO accepts any, even none, which
// then matches every version in lookups.
func (a *CompositeApp) Validate() error {
	c := begin(&a.Named)
	c.name("spec.compositeAppVersion", a.Spec.Version)
	return c.err()
}
