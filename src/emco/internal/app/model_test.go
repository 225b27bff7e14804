package app_test

import (
	"fmt"
	"maps"
	"slices"
)

// placedEditions is what one revision puts where: app, cluster, edition of its content.
type placedEditions map[string]map[string]int

// with returns a copy that puts one edition of an app on the given clusters.
func (r placedEditions) with(app string, edition int, clusters ...string) placedEditions {
	out := maps.Clone(r)
	out[app] = map[string]int{}
	for _, c := range clusters {
		out[app][c] = edition
	}
	return out
}

// deploymentModel is what must be true of a deployment, worked out from what was asked for alone.
type deploymentModel struct {
	releases []placedEditions // by revision; that of number 0 is empty
	wanted   int              // revision that is asked for, or on its way to be; 0 is nothing
	history  []string         // "State revision"
}

func newModel() *deploymentModel { return &deploymentModel{releases: []placedEditions{{}}} }

// approve is the first thing that happens to a deployment.
func (m *deploymentModel) approve() { m.history = append(m.history, "Created 0", "Approved 0") }

// publish makes a release the next revision; states are what the history gets besides.
func (m *deploymentModel) publish(r placedEditions, states ...string) {
	m.history = append(m.history, states...)
	m.releases = append(m.releases, r)
	m.wanted = len(m.releases) - 1
	m.history = append(m.history, fmt.Sprintf("Instantiated %d", m.wanted))
}

func (m *deploymentModel) instantiate(r placedEditions) { m.publish(r) }
func (m *deploymentModel) update(r placedEditions)      { m.publish(r, fmt.Sprintf("Updated %d", m.wanted)) }
func (m *deploymentModel) rollback(to int)              { m.update(m.releases[to]) }

func (m *deploymentModel) terminate() {
	m.wanted = 0
	m.history = append(m.history, "Terminated 0")
}

// deployed is the status that the model comes to.
func (m *deploymentModel) deployed() string {
	if m.wanted == 0 {
		return "Terminated"
	}
	return "Instantiated"
}

// pairs are the lines of the status.
func (m *deploymentModel) pairs() (out []string) {
	for app, clusters := range m.releases[m.wanted] {
		for c := range clusters {
			out = append(out, app+" "+c+" Applied")
		}
	}
	slices.Sort(out)
	return out
}

// files are the editions that the branch holds, by path.
func (m *deploymentModel) files(id string) map[string]int {
	out := map[string]int{}
	for app, clusters := range m.releases[m.wanted] {
		for c, edition := range clusters {
			out[object(c, id, app)] = edition
		}
	}
	return out
}

// may reports whether an app may have an edition on a cluster (0: not installed) just after a
// client has read that revision from is applied: it may have that revision's edition, or the
// edition of a later revision.
func (m *deploymentModel) may(from int, app, cluster string, edition int) bool {
	if m.wanted == 0 && edition == 0 {
		return true
	}
	for _, r := range m.releases[min(from, len(m.releases)):] {
		if r[app][cluster] == edition {
			return true
		}
	}
	return false
}
