package v2

import (
	"fmt"
	"strings"
)

// App is one Helm chart of a composite app; the chart is uploaded with the
// document.
type App struct {
	Named
	Spec AppSpec `json:"spec,omitzero"` // how changes of the app reach its clusters; an addition to upstream's API
}

// AppSpec defines how changes of the app reach its clusters. It is an addition to upstream's API.
type AppSpec struct {
	LeaveLast bool     `json:"leaveLast,omitempty"` // remove it from clusters that it left only when it is ready on the others
	Rollout   *Rollout `json:"rollout,omitempty"`   // none: all clusters at once
}

// Rollout lets a change reach clusters in waves: a wave begins when the clusters of all
// earlier waves have been ready for bakeSeconds. The last wave is all clusters that no wave names.
type Rollout struct {
	Waves []Wave `json:"waves"`                 // in order; the clusters that no wave names come last
	Bake  int    `json:"bakeSeconds,omitempty"` // how long the clusters of a wave must be ready before the next one begins
}

// Wave is a number of clusters, a share of all clusters of the app, or the clusters with a label. It takes
// clusters that no earlier wave has, in order of their names.
type Wave struct {
	Clusters     int    `json:"clusters,omitempty"`     // a number of clusters; exactly one of clusters, percent and clusterLabel
	Percent      int    `json:"percent,omitempty"`      // a share of all clusters of the app, 1 to 100, rounded up
	ClusterLabel string `json:"clusterLabel,omitempty"` // the clusters that had this label when the revision was made
	Bake         *int   `json:"bakeSeconds,omitempty"`  // after this wave, instead of the rollout's
	Pause        bool   `json:"pause,omitempty"`        // after this wave the rollout waits until somebody promotes the revision
}

const (
	maxWaves = 20
	maxBake  = 7 * 24 * 3600 // seconds
)

// Validate checks metadata and spec.
func (a *App) Validate() error {
	c := begin(&a.Named)
	if r := a.Spec.Rollout; r != nil {
		c.between("spec.rollout.waves (their number)", len(r.Waves), 1, maxWaves)
		c.between("spec.rollout.bakeSeconds", r.Bake, 0, maxBake)
		for i, w := range r.Waves {
			w.validate(c, fmt.Sprintf("spec.rollout.waves[%d]", i))
		}
	}
	return c.err()
}

// validate checks a wave, which is at this place of the document.
func (w Wave) validate(c *violationList, at string) {
	sizes := 0
	for _, set := range []bool{w.Clusters != 0, w.Percent != 0, w.ClusterLabel != ""} {
		if set {
			sizes++
		}
	}
	if sizes != 1 || w.Clusters < 0 || w.Percent < 0 || w.Percent > 100 {
		c.fail(at, "needs one of clusters, above 0, percent, 1 to 100, and clusterLabel")
	}
	if w.ClusterLabel != "" {
		c.name(at+".clusterLabel", w.ClusterLabel)
	}
	if w.Bake != nil {
		c.between(at+".bakeSeconds", *w.Bake, 0, maxBake)
	}
}

// AppDependency makes an app wait for another one of the same composite app.
type AppDependency struct {
	Named
	Spec AppDependencySpec `json:"spec"` // the app to wait for, and the state to wait for
}

// AppDependencySpec names the app to wait for, and the state to wait for.
type AppDependencySpec struct {
	App      string `json:"app" alias:"app-name"` // the app to wait for
	OpStatus string `json:"opStatus"`             // "Ready" or "Deployed", in any letter case
	Wait     int    `json:"wait"`                 // seconds to wait after that
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
