package revision

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	maxNamed  = 5  // objects that one text names
	maxOthers = 10 // apps that a text is about, such as those that place objects of one app, too
)

// Placed is what clusters should hold, kept as it changes: the mirror.
type Placed interface {
	// Cluster returns the pairs of a cluster. They may be a moment old.
	Cluster(name v2.ClusterKey) []mirror.ClusterPair
	// Document returns the key of the document of a deployment; empty if it is not known.
	Document(d v2.DeploymentID) string
}

// bundleReader reads bundles.
type bundleReader interface {
	GetBundle(ctx context.Context, d appcontext.Digest) (appcontext.Bundle, error)
}

// duplicate is objects of an app that another app places on some of the same clusters: they overwrite each other.
type duplicate struct {
	app     string
	other   string // for people
	within  bool   // the other app is of the same deployment
	objects []manifest.ID
	changed bool // the app changes on one of the clusters, or the other app has been there before
	first   v2.ClusterKey
	more    int // clusters besides the first
}

// String is the finding.
func (d duplicate) String() string {
	clusters := string(d.first)
	switch {
	case d.more == 1:
		clusters += " and 1 more cluster"
	case d.more > 1:
		clusters += fmt.Sprintf(" and %d more clusters", d.more)
	}
	return fmt.Sprintf("%s: %s also places this on %s: they overwrite each other; rename one", named(d.objects), d.other, clusters)
}

// named names the first objects, and says how many others there are.
func named(objects []manifest.ID) string {
	var names []string
	for _, id := range objects[:min(len(objects), maxNamed)] {
		names = append(names, id.String())
	}
	text := strings.Join(names, ", ")
	if more := len(objects) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// duplicateSearch finds duplicates of one draft. It looks at each set of apps that clusters share once, and compares two bundles
// once; other deployments matter only on clusters where the draft changes something.
type duplicateSearch struct {
	bundles    bundleReader
	placed     Placed // nil: other deployments are not known
	deployment v2.DeploymentID
	project    string
	compared   map[[2]appcontext.Digest][]manifest.ID // common objects of two bundles
	found      map[[3]string]*duplicate               // by app, other, and the first object
}

// duplicates returns the objects of next that several apps place on one cluster, in order of app. now is
// what the deployment has placed before, and from has the bundles of next. Definitions are left out: apps share them.
func (b Builder) duplicates(ctx context.Context, from bundleReader, head appcontext.Head, now, next []appcontext.Placement) ([]duplicate, error) {
	s := duplicateSearch{
		bundles: from, placed: b.Placed, deployment: head.Deployment(), project: store.Key(head.Document).Project(),
		compared: map[[2]appcontext.Digest][]manifest.ID{}, found: map[[3]string]*duplicate{},
	}
	type look struct {
		changed map[string]bool // apps with other content than before
		within  []*duplicate
	}
	looks := map[[2]uintptr]look{} // by the sets before and after
	for was, is := range appcontext.Zip(now, next) {
		if len(is.Apps) == 0 {
			continue
		}
		key := [2]uintptr{was.SetID(), is.SetID()}
		l, known := looks[key]
		if !known {
			l.changed = map[string]bool{}
			for app, bundle := range is.Apps {
				if was.Apps[app] != bundle {
					l.changed[app] = true
				}
			}
			var err error
			if l.within, err = s.within(ctx, is, l.changed); err != nil {
				return nil, err
			}
			looks[key] = l
		}
		for _, d := range l.within {
			d.add(is.Cluster)
		}
		if err := s.beside(ctx, is, l.changed); err != nil {
			return nil, err
		}
	}
	out := make([]duplicate, 0, len(s.found))
	for _, key := range slices.SortedFunc(maps.Keys(s.found), func(a, b [3]string) int { return slices.Compare(a[:], b[:]) }) {
		out = append(out, *s.found[key])
	}
	return out, nil
}

// within finds the duplicates of the apps of one set. Each concerns both apps.
func (s *duplicateSearch) within(ctx context.Context, is appcontext.Placement, changed map[string]bool) (out []*duplicate, err error) {
	owners := map[manifest.ObjectKey]string{}
	shared := map[[2]string][]manifest.ID{}
	for _, app := range slices.Sorted(maps.Keys(is.Apps)) {
		bundle, err := s.bundles.GetBundle(ctx, is.Apps[app])
		if err != nil {
			return nil, err
		}
		for _, ref := range bundle.Objects {
			if manifest.IsCRD(ref.ID) {
				continue
			}
			if owner, taken := owners[ref.ID.Key()]; taken {
				shared[[2]string{owner, app}] = append(shared[[2]string{owner, app}], ref.ID)
				continue
			}
			owners[ref.ID.Key()] = app
		}
	}
	for apps, ids := range shared {
		out = append(out,
			s.find(duplicate{app: apps[0], other: "app " + apps[1], within: true, objects: ids, changed: changed[apps[0]]}),
			s.find(duplicate{app: apps[1], other: "app " + apps[0], within: true, objects: ids, changed: changed[apps[1]]}))
	}
	return out, nil
}

// beside finds the objects of changed apps that other deployments place on a cluster, too.
func (s *duplicateSearch) beside(ctx context.Context, is appcontext.Placement, changed map[string]bool) error {
	if s.placed == nil || len(changed) == 0 {
		return nil
	}
	for _, p := range s.placed.Cluster(is.Cluster) {
		if p.UID == s.deployment || p.State == nil || p.State.Common().Desired == "" {
			continue
		}
		for app := range changed {
			ids, err := s.common(ctx, is.Apps[app], p.State.Common().Desired)
			if err != nil {
				return err
			}
			if len(ids) > 0 {
				s.find(duplicate{app: app, other: s.nameOf(p), objects: ids, changed: true}).add(is.Cluster)
			}
		}
	}
	return nil
}

// readable returns a bundle; an empty one if it is lost or damaged, which must not hold up what only compares itself with it.
func readable(ctx context.Context, bundles bundleReader, d appcontext.Digest) (appcontext.Bundle, error) {
	b, err := bundles.GetBundle(ctx, d)
	if errs.Is(err, errs.NotFound) || errs.Is(err, errs.Internal) {
		return appcontext.Bundle{}, nil
	}
	return b, err
}

// common returns the objects that a bundle and one of another deployment have in common.
func (s *duplicateSearch) common(ctx context.Context, own, other appcontext.Digest) ([]manifest.ID, error) {
	key := [2]appcontext.Digest{own, other}
	if ids, known := s.compared[key]; known {
		return ids, nil
	}
	a, err := s.bundles.GetBundle(ctx, own)
	if err != nil {
		return nil, err
	}
	b, err := readable(ctx, s.bundles, other)
	if err != nil {
		return nil, err
	}
	s.compared[key] = a.Common(b)
	return s.compared[key], nil
}

// nameOf names an app of another deployment. Names of other projects stay theirs.
func (s *duplicateSearch) nameOf(p mirror.ClusterPair) string {
	document := s.placed.Document(p.UID)
	if project := store.Key(document).Project(); project == "" || project != s.project {
		return "a deployment of another project"
	}
	return document + ", app " + p.App
}

// find returns the record of a duplicate.
func (s *duplicateSearch) find(d duplicate) *duplicate {
	key := [3]string{d.app, d.other, d.objects[0].String()}
	known, ok := s.found[key]
	if !ok {
		s.found[key] = &d
		return &d
	}
	known.changed = known.changed || d.changed
	return known
}

// add counts a cluster. Clusters come in order; one may come twice, of two deployments of another project.
func (d *duplicate) add(cluster v2.ClusterKey) {
	if d.first == "" {
		d.first = cluster
	} else if d.first != cluster {
		d.more++
	}
}

// refusals returns why apps are refused for duplicates, by app; those that change and meet a policy that refuses duplicates.
func refusals(found []duplicate, policy string) map[string]*appcontext.Failure {
	texts := map[string][]string{}
	for _, d := range found {
		if d.changed {
			texts[d.app] = append(texts[d.app], fmt.Sprintf("%s (%s: %s)", d, policy, v2.RuleDuplicates))
		}
	}
	out := map[string]*appcontext.Failure{}
	for app, all := range texts {
		out[app] = &appcontext.Failure{Stage: "policy", Reason: strings.Join(shortened(all), "\n")}
	}
	return out
}

// findings returns the findings about an app by whether the other app is of the same deployment.
func findings(found []duplicate, app string, within bool) (out []string) {
	for _, d := range found {
		if d.app == app && d.within == within {
			out = append(out, d.String())
		}
	}
	slices.Sort(out)
	return shortened(out)
}

// shortened returns the first texts, each about another app, and how many others there are.
func shortened(texts []string) []string {
	more := len(texts) - maxOthers
	if more <= 0 {
		return texts
	}
	return append(texts[:maxOthers:maxOthers], fmt.Sprintf("and %d more apps", more))
}
