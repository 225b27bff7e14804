package rsync

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/git"
)

// summary collects what the first line of a commit says.
type summary struct {
	subjects map[string]bool
	clusters map[string]bool
	updates  bool // something is to be there, and not only to go
}

func (s *summary) note(subject string, t pair.Target, pairs []appcontext.Pair) {
	if s.subjects == nil {
		s.subjects, s.clusters = map[string]bool{}, map[string]bool{}
	}
	s.subjects[subject], s.clusters[t.Cluster] = true, true
	for _, p := range pairs {
		s.updates = s.updates || p.Desired != ""
	}
}

// title is such as "Update shop/till/v1/autumn on 3 clusters".
func (s *summary) title() string {
	verb := "Remove"
	if s.updates {
		verb = "Update"
	}
	what := fmt.Sprintf("%d deployments", len(s.subjects))
	if len(s.subjects) == 1 {
		what = brief(slices.Collect(maps.Keys(s.subjects))[0])
	}
	where := fmt.Sprintf("%d clusters", len(s.clusters))
	if len(s.clusters) == 1 {
		where = slices.Collect(maps.Keys(s.clusters))[0]
	}
	return verb + " " + what + " on " + where
}

// brief leaves the names of collections out of a key.
func brief(key string) string {
	collections := map[string]bool{"projects": true, "composite-apps": true, "deployment-intent-groups": true}
	parts := slices.DeleteFunc(strings.Split(key, "/"), func(s string) bool { return collections[s] })
	return strings.Join(parts, "/")
}

// trailers collects what a commit is about: values by key.
type trailers map[string]map[string]bool

func (l trailers) note(t pair.Target, pairs []appcontext.Pair) {
	l.add("Emco-Clusters", t.Cluster)
	l.add("Emco-Deployment", t.UID)
	for _, p := range pairs {
		l.add("Emco-Revision", t.UID+"."+strconv.FormatInt(p.Rev, 10))
	}
}

func (l trailers) add(key, value string) {
	if l[key] == nil {
		l[key] = map[string]bool{}
	}
	l[key][value] = true
}

func (l trailers) list() []git.Trailer {
	var out []git.Trailer
	for _, key := range slices.Sorted(maps.Keys(l)) {
		out = append(out, git.Trailer{Key: key, Value: strings.Join(slices.Sorted(maps.Keys(l[key])), ", ")})
	}
	return out
}
