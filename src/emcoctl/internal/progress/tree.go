package progress

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
)

// Mark is the status of a part of a deployment.
type Mark string

// The marks.
const (
	Good     Mark = "+" // as desired
	UnderWay Mark = "~" // not yet
	Silent   Mark = "?" // not reported
	Bad      Mark = "!" // something is wrong
)

// badness orders marks from good to bad.
var badness = map[Mark]int{Good: 0, Silent: 1, UnderWay: 2, Bad: 3}

// worst returns the worse of two marks.
func worst(a, b Mark) Mark {
	if badness[b] > badness[a] {
		return b
	}
	return a
}

// Node is a part of a deployment: the whole, an app, a cluster, or an object.
type Node struct {
	Mark  Mark // the worst of its own and of those below
	Name  string
	State string // one word
	Why   string // details; may be empty
	Below []Node
}

// add adds a child.
func (n *Node) add(child Node) {
	n.Below = append(n.Below, child)
	n.Mark = worst(n.Mark, child.Mark)
}

// Tree returns a status with readiness as a tree: the deployment, its apps, their clusters
// and objects. A cluster that an app leaves is a child of the app.
func Tree(s v2.Status) Node {
	top := Node{Mark: Good, Name: s.Name, State: state(s), Why: s.Failure}
	switch s.ReadyStatus {
	case "":
	case Unknown:
		top.State += ", readiness unknown"
	default:
		top.State += ", " + s.ReadyStatus
	}
	switch {
	case s.Failure != "" || failed(s):
		top.Mark = Bad
	case s.DeployedStatus == v2.StatusInstantiating || s.DeployedStatus == v2.StatusTerminating:
		top.Mark = UnderWay
	}
	leaving := map[string][]v2.Leaving{}
	for _, l := range s.Leaving {
		leaving[l.App] = append(leaving[l.App], l)
	}
	for _, a := range s.Apps {
		n := appNode(a)
		for _, l := range leaving[a.Name] {
			n.add(leavingNode(l))
		}
		delete(leaving, a.Name)
		top.add(n)
	}
	for _, l := range s.Leaving { // of removed apps
		if rest := leaving[l.App]; rest != nil {
			n := Node{Mark: Good, Name: l.App, State: "leaving"}
			for _, l := range rest {
				n.add(leavingNode(l))
			}
			delete(leaving, l.App)
			top.add(n)
		}
	}
	for _, c := range s.Clusters {
		top.add(clusterNode(c))
	}
	return top
}

func appNode(a v2.AppStatus) Node {
	n := Node{Mark: Good, Name: a.Name, State: fmt.Sprintf("on %d clusters", len(a.Clusters))}
	switch len(a.Clusters) {
	case 0:
		n.State = "on no cluster"
	case 1:
		n.State = "on 1 cluster"
	}
	if a.Failure != nil {
		n.Mark, n.Why = Bad, Failure(*a.Failure)
	}
	for _, c := range a.Clusters {
		n.add(clusterNode(c))
	}
	return n
}

func clusterNode(c v2.ClusterStatus) Node {
	n := Node{Mark: phaseMark(c.Phase), Name: c.Key().String(), State: c.Phase, Why: trouble(c)}
	if n.State == "" {
		n.State = Unknown
	}
	for _, r := range c.Resources {
		n.add(objectNode(r))
	}
	if c.Stale {
		n.Mark = worst(n.Mark, Silent)
	}
	n = summed(n)
	if len(c.Findings) > 0 {
		n.Why = strings.TrimPrefix(n.Why+"; "+strings.Join(c.Findings, "; "), "; ")
	}
	return n
}

// summed replaces the objects of a cluster that does not report with one node.
func summed(n Node) Node {
	if len(n.Below) == 0 || n.Why != "" && n.Why != n.Below[0].Why {
		return n
	}
	why := n.Below[0].Why
	if slices.ContainsFunc(n.Below, func(b Node) bool { return b.Mark != Silent || b.Why != why }) {
		return n
	}
	n.Why = why
	for i := range n.Below {
		n.Below[i].Why = ""
	}
	return n
}

func leavingNode(l v2.Leaving) Node {
	n := Node{Mark: worst(UnderWay, phaseMark(l.Phase)), Name: l.Key().String(), State: "leaving", Why: LeavingError(l)}
	if n.Why == "" && l.Blocked != "" {
		n.Why = "blocked: " + l.Blocked
	}
	return n
}

// phaseMark returns the mark of a pair by its phase alone.
func phaseMark(phase string) Mark {
	switch phase {
	case "Applied":
		return Good
	case "Failed", "Retrying":
		return Bad
	case "":
		return Silent
	}
	return UnderWay
}

func objectNode(r v2.ResourceStatus) Node {
	n := Node{Mark: UnderWay, Name: r.GVK.Kind + " " + r.Name, State: r.ReadyStatus, Why: r.Reason}
	switch r.ReadyStatus {
	case v2.Ready:
		n.Mark, n.Why = Good, ""
	case Unknown, "":
		n.Mark, n.State = Silent, Unknown
	}
	if r.Extra {
		n.Name += " (made by the cluster)"
	}
	return n
}

// ClusterDetail explains the state of an app on a cluster: its error with the time of the next attempt, what it waits
// for, the time of the last report if that is old, or its findings.
func ClusterDetail(c v2.ClusterStatus) string {
	return cmp.Or(trouble(c), strings.Join(c.Findings, "; "))
}

// trouble explains the state of an app on a cluster without its findings; empty if nothing is wrong.
func trouble(c v2.ClusterStatus) string {
	switch {
	case c.Error != "":
		var next time.Time
		if c.NextAttempt != nil {
			next = *c.NextAttempt
		}
		return c.Error + attempts(c.Attempts, next)
	case c.Blocked != "":
		return "blocked: " + c.Blocked
	case c.Stale && c.LastReport != nil:
		return "silent since " + printable.Time(*c.LastReport)
	case c.Stale:
		return "silent"
	case c.Connectivity == "Retrying":
		return "connectivity: " + c.Connectivity
	}
	return ""
}

// LeavingError returns the error of an app that leaves a cluster, with the time of the next
// attempt.
func LeavingError(l v2.Leaving) string {
	if l.Error == "" {
		return ""
	}
	return l.Error + attempts(l.Attempts, l.NextAttempt)
}

// attempts counts failed attempts and gives the time of the next one.
func attempts(n int, next time.Time) string {
	switch {
	case n == 0:
		return ""
	case next.IsZero():
		return fmt.Sprintf(" (attempt %d)", n)
	}
	return fmt.Sprintf(" (attempt %d; next at %s)", n, printable.Time(next))
}
