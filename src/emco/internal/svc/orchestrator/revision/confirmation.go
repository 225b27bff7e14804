package revision

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Users must confirm with ?force=true a revision that removes more than manyPlacements, or
// more than largeShare of a deployment of at least that size: a typing error in a label
// must not empty a fleet. They must also confirm one that has fewer than half as many objects of an
// app on a cluster: a chart that renders to nothing by mistake must not delete what runs.
const (
	manyPlacements = 20
	largeShare     = 10 // percent
)

// NeedsConfirmation returns why users must confirm the next placements; empty if they need not. Next
// placements without a bundle are not rendered yet: they count, but their objects are not known. Errors are the store's.
func (b Builder) NeedsConfirmation(ctx context.Context, head appcontext.Head, next []appcontext.Placement) (string, error) {
	now, err := Desired(ctx, b.Contexts, head)
	if err != nil {
		return "", err
	}
	var reasons []string
	gone, all, replaced := compare(now, next)
	if tooMany(gone, all) {
		reasons = append(reasons, fmt.Sprintf("this would remove %d of %d placements", gone, all))
	}
	lost, err := b.lostObjects(ctx, replaced)
	if err != nil {
		return "", err
	}
	if reasons = append(reasons, lost...); len(reasons) == 0 {
		return "", nil
	}
	return strings.Join(reasons, "; ") + "; if that is meant, confirm it with ?force=true", nil
}

// tooMany reports whether users must confirm the removal of gone out of all placements.
func tooMany(gone, all int) bool {
	return gone > manyPlacements || all >= manyPlacements && gone*100 > all*largeShare
}

// replacement is a bundle of an app that another one replaces.
type replacement struct {
	app      string
	from, to appcontext.Digest
}

// compare counts the placements of now, and how many of them next lacks. It returns the bundles
// that next replaces, each with the first cluster where it does.
func compare(now, next []appcontext.Placement) (gone, all int, replaced map[replacement]v2.ClusterKey) {
	replaced = map[replacement]v2.ClusterKey{}
	counts := map[[2]uintptr]int{} // clusters that share their maps share the count
	for was, is := range appcontext.Zip(now, next) {
		key := [2]uintptr{was.SetID(), is.SetID()}
		n, known := counts[key]
		if !known {
			for app, from := range was.Apps {
				to, stays := is.Apps[app]
				if !stays {
					n++
				}
				r := replacement{app, from, to}
				if _, known := replaced[r]; !known && to != "" && to != from {
					replaced[r] = was.Cluster
				}
			}
			counts[key] = n
		}
		gone, all = gone+n, all+len(was.Apps)
	}
	return gone, all, replaced
}

// lostObjects returns a text for each app that has fewer than half as many objects where a bundle is replaced, in order of app.
func (b Builder) lostObjects(ctx context.Context, replaced map[replacement]v2.ClusterKey) ([]string, error) {
	var texts []string
	last := "" // app with a text
	for _, r := range slices.SortedFunc(maps.Keys(replaced), func(x, y replacement) int {
		return cmp.Or(cmp.Compare(x.app, y.app), cmp.Compare(replaced[x], replaced[y]))
	}) {
		if r.app == last {
			continue
		}
		bundle, err := readable(ctx, b.Blobs, r.from)
		if err != nil {
			return nil, err
		}
		next, err := b.Blobs.GetBundle(ctx, r.to)
		if err != nil {
			return nil, err
		}
		had, has := removable(bundle), removable(next)
		if len(has)*2 >= len(had) {
			continue
		}
		last = r.app
		texts = append(texts, fmt.Sprintf("app %s would have %d instead of %d objects on %s and clusters like it, and lose %s",
			r.app, len(has), len(had), replaced[r], named(missing(had, has))))
	}
	return shortened(texts), nil
}

// removable returns the objects and hooks of a bundle, without definitions: they stay on clusters.
func removable(b appcontext.Bundle) (out []manifest.ID) {
	for _, ref := range b.Objects {
		if !manifest.IsCRD(ref.ID) {
			out = append(out, ref.ID)
		}
	}
	for _, h := range b.Hooks {
		out = append(out, h.ID)
	}
	return out
}

// missing returns the objects of had that has lacks, in whatever version of its API.
func missing(had, has []manifest.ID) (out []manifest.ID) {
	stays := map[manifest.ObjectKey]bool{}
	for _, id := range has {
		stays[id.Key()] = true
	}
	for _, id := range had {
		if !stays[id.Key()] {
			out = append(out, id)
		}
	}
	return out
}
