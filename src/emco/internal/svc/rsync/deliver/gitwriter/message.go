package gitwriter

import (
	"fmt"
	"maps"
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/trailers"
	"github.com/emco-orchestrator/emco/src/git"
)

// commitTitle collects what the first line of a commit is about.
type commitTitle struct {
	subjects map[string]bool
	clusters map[v2.ClusterKey]bool
	updates  bool // something is added or changed, not only removed
}

// pairsSummary is what a job and its commit message say of a target's pairs.
type pairsSummary struct {
	revisions   []int64 // each once, in order
	updates     bool    // something is added or changed, not only removed
	urgent      bool    // something is due to be removed or rolled back
	interactive bool    // something is due that was not tried before
}

func summaryOf(pairs []appcontext.Pair) (out pairsSummary) {
	for _, p := range pairs {
		if !slices.Contains(out.revisions, p.Rev) {
			out.revisions = append(out.revisions, p.Rev)
		}
		out.updates = out.updates || p.Desired != ""
		out.urgent = out.urgent || pair.Urgent(p)
		out.interactive = out.interactive || pair.Deliverable(p) && p.Attempt == 0
	}
	slices.Sort(out.revisions)
	return out
}

func (c *commitTitle) add(subject string, t pair.Target, about pairsSummary) {
	if c.subjects == nil {
		c.subjects, c.clusters = map[string]bool{}, map[v2.ClusterKey]bool{}
	}
	c.subjects[subject], c.clusters[t.Cluster] = true, true
	c.updates = c.updates || about.updates
}

// String is such as "Update shop/till/v1/autumn on 3 clusters".
func (c *commitTitle) String() string {
	verb := "Remove"
	if c.updates {
		verb = "Update"
	}
	what := fmt.Sprintf("%d deployments", len(c.subjects))
	if len(c.subjects) == 1 {
		what = v2.ShortName(slices.Collect(maps.Keys(c.subjects))[0])
	}
	where := fmt.Sprintf("%d clusters", len(c.clusters))
	if len(c.clusters) == 1 {
		where = string(slices.Collect(maps.Keys(c.clusters))[0])
	}
	return verb + " " + what + " on " + where
}

// trailerSet collects the trailers of a commit: values by key. The trailer Emco-Fence is not
// among them: git/batch adds it from the fence of the job.
type trailerSet map[string]map[string]bool

func (s trailerSet) addTarget(t pair.Target, about pairsSummary) {
	s.add(trailers.Clusters, string(t.Cluster))
	s.add(trailers.Deployments, string(t.Deployment))
	for _, rev := range about.revisions {
		s.add(trailers.Revisions, trailers.Carried{Deployment: t.Deployment, Revision: rev}.Text())
	}
}

func (s trailerSet) add(key, value string) {
	if s[key] == nil {
		s[key] = map[string]bool{}
	}
	s[key][value] = true
}

func (s trailerSet) list() []git.Trailer {
	var out []git.Trailer
	for _, key := range slices.Sorted(maps.Keys(s)) {
		out = append(out, git.Trailer{Key: key, Value: trailers.Join(slices.Sorted(maps.Keys(s[key])))})
	}
	return out
}
