package v2

import "strings"

// CompositeApp is a set of apps that are deployed together. Its name and version identify
// it.
type CompositeApp struct {
	Named
	Spec CompositeAppSpec `json:"spec"` // the version
}

// CompositeAppSpec holds the version.
type CompositeAppSpec struct {
	Version string `json:"compositeAppVersion" alias:"version"` // part of the path of the document
}

// DocName returns "name/version".
func (a *CompositeApp) DocName() string { return a.Metadata.Name + "/" + a.Spec.Version }

// SetDocName sets the name and the version, each if it is empty.
func (a *CompositeApp) SetDocName(name string) {
	name, version, _ := strings.Cut(name, "/")
	a.Metadata.SetDocName(name)
	if a.Spec.Version == "" {
		a.Spec.Version = version
	}
}

// Validate requires a version that is a name. Upstream EMCO accepts any; its lookups take an empty
// one for every version.
func (a *CompositeApp) Validate() error {
	c := begin(&a.Named)
	c.name("spec.compositeAppVersion", a.Spec.Version)
	return c.err()
}
