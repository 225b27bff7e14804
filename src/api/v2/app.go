package v2

import "strings"

// App is one Helm chart of a composite app; the chart is uploaded beside the
// document.
type App struct {
	Named
}

// AppDependency makes an app wait for another one of the same composite app.
type AppDependency struct {
	Named
	Spec AppDependencySpec `json:"spec"`
}

// AppDependencySpec says for which app to wait, and for what.
type AppDependencySpec struct {
	App      string `json:"app" alias:"app-name"`
	OpStatus string `json:"opStatus"` // "Ready" or "Deployed", in any letter case
	Wait     int    `json:"wait"`     // seconds to wait after that
}

// maxWait is the longest wait of a dependency, in seconds.
const maxWait = 4096

// Ready reports whether the other app must be ready, not just deployed.
func (s AppDependencySpec) Ready() bool { return strings.EqualFold(s.OpStatus, "Ready") }

// Validate checks metadata and spec.
func (d *AppDependency) Validate() error {
	c := begin(&d.Named)
	c.name("spec.app", d.Spec.App)
	if !d.Spec.Ready() && !strings.EqualFold(d.Spec.OpStatus, "Deployed") {
		c.fail("spec.opStatus", "%s is neither Ready nor Deployed", quote(d.Spec.OpStatus))
	}
	c.between("spec.wait", d.Spec.Wait, 0, maxWait)
	return c.err()
}
