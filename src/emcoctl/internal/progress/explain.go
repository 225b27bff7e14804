package progress

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// maxListed bounds lists.
const maxListed = 20

// Summary returns one line: the state, counts, and the failed apps.
func Summary(s v2.Status) string {
	parts := []string{s.DeployedStatus}
	if s.DeployedStatus == "" {
		parts[0] = lastState(s)
	}
	for _, row := range []struct {
		of     string
		counts map[string]int
	}{{"clusters", phases(s)}, {"objects", s.DeployedCounts}, {"readiness", s.ReadyCounts}} {
		if len(row.counts) > 0 {
			parts = append(parts, row.of+": "+Counts(row.counts))
		}
	}
	for _, app := range s.Apps {
		if app.Failure != nil {
			parts = append(parts, fmt.Sprintf("app %s: %s", app.Name, Failure(*app.Failure)))
		}
	}
	if first, n := blocked(s); n > 0 {
		text := first.Name() + " is blocked: " + first.Blocked
		if n > 1 {
			text += fmt.Sprintf(" (and %d more)", n-1)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// blocked returns the first app on a cluster that waits for something, and their number.
func blocked(s v2.Status) (first Pair, n int) {
	for _, p := range Pairs(s) {
		if p.Blocked == "" {
			continue
		}
		if n == 0 {
			first = p
		}
		n++
	}
	return first, n
}

// lastState returns the last action of the history, or words for none.
func lastState(s v2.Status) string {
	if n := len(s.States.Actions); n > 0 {
		return s.States.Actions[n-1].State
	}
	return "not started"
}

// Counts returns counts sorted by name: "Applied 12, Pending 3".
func Counts(counts map[string]int) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", key, counts[key]))
	}
	return strings.Join(parts, ", ")
}

// phases counts the phases of all pairs of app and cluster.
func phases(s v2.Status) map[string]int {
	counts := map[string]int{}
	for _, p := range Pairs(s) {
		if p.Phase != "" {
			counts[p.Phase]++
		}
	}
	return counts
}

// Failure returns one line: the stage, the file and the reason.
func Failure(f v2.AppFailure) string {
	text := f.Reason
	if f.File != "" {
		text = f.File + ": " + text
	}
	if f.Stage != "" {
		text = f.Stage + ": " + text
	}
	return text
}

// Pair is an app on a cluster. App is empty for logical clouds.
type Pair struct {
	App string
	v2.ClusterStatus
}

// Pairs lists all apps on all clusters, in the order of the status.
func Pairs(s v2.Status) []Pair {
	var all []Pair
	for _, app := range s.Apps {
		for _, c := range app.Clusters {
			all = append(all, Pair{app.Name, c})
		}
	}
	for _, c := range s.Clusters {
		all = append(all, Pair{"", c})
	}
	return all
}

// Name returns "app on provider+cluster".
func (p Pair) Name() string {
	if p.App == "" {
		return p.Key().String()
	}
	return p.App + " on " + p.Key().String()
}

// Reasons lists why a deployment failed: as a whole, in apps, and on clusters.
func Reasons(s v2.Status) []string {
	var all []string
	if s.Failure != "" {
		all = append(all, s.Failure)
	}
	for _, app := range s.Apps {
		if app.Failure != nil {
			all = append(all, fmt.Sprintf("app %s: %s", app.Name, Failure(*app.Failure)))
		}
	}
	for _, p := range Pairs(s) {
		if p.Error != "" {
			all = append(all, fmt.Sprintf("%s: %s", p.Name(), p.Error))
		}
	}
	return cut(all)
}

// Findings lists the findings about apps on clusters. One that an app has on several clusters takes one line.
func Findings(s v2.Status) []string {
	type finding struct{ app, text string }
	var order []finding
	found := map[finding][]Pair{}
	for _, p := range Pairs(s) {
		for _, text := range p.Findings {
			f := finding{p.App, text}
			if found[f] == nil {
				order = append(order, f)
			}
			found[f] = append(found[f], p)
		}
	}
	var all []string
	for _, f := range order {
		where := found[f][0].Name()
		if f.app != "" {
			where = "app " + where
		}
		if n := len(found[f]) - 1; n > 0 {
			where += fmt.Sprintf(" (and %d more)", n)
		}
		all = append(all, where+": "+f.text)
	}
	return cut(all)
}

// Holding lists what keeps a deployment from the goal: failures, then pairs and objects
// that have not reached it.
func Holding(s v2.Status, g Goal) []string {
	var all []string
	if kind, _, ok := g.condition(); ok {
		all = append(all, "condition "+kind+" is "+conditionText(s, kind))
	}
	all = append(all, Reasons(s)...)
	for _, p := range Pairs(s) {
		if p.Phase != "" && p.Phase != "Applied" && p.Error == "" {
			all = append(all, strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", p.Name(), p.Phase, ClusterDetail(p.ClusterStatus)), ": "))
		}
		all = append(all, objects(p, g)...)
	}
	if len(all) == 0 && g == Applied {
		for key, n := range s.DeployedCounts {
			if key != "Applied" && key != "Deleted" && n > 0 {
				all = append(all, fmt.Sprintf("%d objects are %s", n, key))
			}
		}
		slices.Sort(all)
	}
	if len(all) == 0 && s.DeployedStatus != v2.StatusInstantiated && g != Terminated {
		all = append(all, "its state is "+state(s))
	}
	return cut(all)
}

// conditionText describes the condition of a type in a status.
func conditionText(s v2.Status, kind string) string {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return FormatCondition(c)
		}
	}
	return "not reported by the server"
}

// FormatCondition returns a condition's status with its reason and message.
func FormatCondition(c v2.Condition) string {
	text := c.Status
	for _, more := range []string{c.Reason, c.Message} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}

// Unknown is the readyStatus of an object whose cluster has not reported.
const Unknown = "Unknown"

// objects lists the objects of a pair that have not reached the goal; those of unknown
// status share one line.
func objects(p Pair, g Goal) []string {
	var all []string
	silent := false
	for _, r := range p.Resources {
		state := lacking(r, g)
		switch {
		case state == "":
		case g == Ready && r.ReadyStatus == Unknown:
			if !silent {
				all = append(all, fmt.Sprintf("%s: %s", p.Name(), state))
			}
			silent = true
		default:
			all = append(all, fmt.Sprintf("%s: %s %s is %s", p.Name(), r.GVK.Kind, r.Name, state))
		}
	}
	return all
}

// state returns the status of the last operation, or the last action.
func state(s v2.Status) string {
	if s.DeployedStatus != "" {
		return s.DeployedStatus
	}
	return lastState(s)
}

// lacking returns the state of an object that has not reached the goal, else "".
func lacking(r v2.ResourceStatus, g Goal) string {
	state, good := r.DeployedStatus, "Applied"
	if g == Ready {
		state, good = r.ReadyStatus, v2.Ready
	}
	if state == "" || state == good || g == Terminated && state == "Deleted" {
		return ""
	}
	if r.Reason != "" {
		state += ": " + r.Reason
	}
	return state
}

// cut shortens a list to maxListed.
func cut(all []string) []string {
	if len(all) <= maxListed {
		return all
	}
	return append(all[:maxListed:maxListed], fmt.Sprintf("and %d more", len(all)-maxListed))
}
