// Package trailers names the trailers that gitwriter adds to commits, and reads them: which clusters, deployments and
// revisions a commit carried. Others are elsewhere: git/batch adds Emco-Fence, and package git names Emco-Source. Anybody who
// may push can write trailers, so they prove nothing.
package trailers

import (
	"strconv"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/git"
)

// The keys. Their values are lists, sorted and separated by commas.
const (
	Clusters    = "Emco-Clusters"
	Deployments = "Emco-Deployment"
	Revisions   = "Emco-Revision" // as DEPLOYMENT.REVISION
	Spans       = "Traceparent"   // of the deliveries, in W3C Trace Context; only of traces that are recorded
)

const separator = ", "

// Carried is a revision that a commit carried.
type Carried struct {
	Deployment v2.DeploymentID
	Revision   int64 // 0 if the commit names none, such as one that removes what is left
}

// Text returns the value of a trailer for a revision.
func (c Carried) Text() string { return string(c.Deployment) + "." + strconv.FormatInt(c.Revision, 10) }

// Join returns the value of a trailer.
func Join(values []string) string { return strings.Join(values, separator) }

// Count returns how many values a trailer of a commit had, with those that were too many for the commit.
func Count(c git.Commit, key string) int {
	values, left := list(c, key)
	return len(values) + left
}

// list returns the values of a trailer, and how many were left out; a long list ends with that number: "… (968 more)".
func list(c git.Commit, key string) (values []string, left int) {
	text := c.Trailer(key)
	if text == "" {
		return nil, 0
	}
	values = strings.Split(text, separator)
	last := len(values) - 1
	number, long := strings.CutPrefix(values[last], "… (")
	number, ended := strings.CutSuffix(number, " more)")
	if !long || !ended {
		return values, 0
	}
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		return values[:last], 0 // not in the form that rsync writes
	}
	return values[:last], int(n)
}

// Of returns the revisions that a commit carried, and then the deployments that it names without one.
func Of(c git.Commit) (out []Carried) {
	named := map[v2.DeploymentID]bool{}
	revisions, _ := list(c, Revisions)
	for _, text := range revisions {
		deployment, number, _ := strings.Cut(text, ".")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			continue // not in the form that rsync writes
		}
		named[v2.DeploymentID(deployment)] = true
		out = append(out, Carried{v2.DeploymentID(deployment), n})
	}
	deployments, _ := list(c, Deployments)
	for _, id := range deployments {
		if d := v2.DeploymentID(id); !named[d] {
			named[d] = true
			out = append(out, Carried{Deployment: d})
		}
	}
	return out
}
