package branchguard

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/git"
)

// The limits of an inspection.
const (
	maxCommits = 20   // commits that are compared one by one; if there are more, all are compared together and attributed to the newest
	maxPaths   = 5000 // changed paths of one comparison
	maxNamed   = 5    // paths that are named with a pair
)

// Differ compares commits.
type Differ interface {
	Changed(ctx context.Context, r git.Repo, d git.Difference) ([]string, error)
}

// editFinder finds edits by others in files of ours. Others may write to our branches. The
// paths that their commits changed are compared with what targets own. An edit is stored
// with its pair and written to its deployment's events; it is overwritten, or held where
// the sync object requires that.
type editFinder struct {
	Options

	mu        sync.Mutex
	inspected map[route.Branch]git.Hash // the newest commit that was looked into; guarded by mu
}

// foundEdits are the edits of one inspection. A pair has one edit: if two commits changed its
// files, the newer one replaces the older. Of more than maxCommits commits, all edits are
// attributed to the newest.
type foundEdits struct {
	edits map[appcontext.PairKey]appcontext.ExternalEdit
	held  map[pair.Target]bool
	keep  []string // paths that must not be overwritten
}

func (f *editFinder) inspect(ctx context.Context, repo git.Repo, on route.Branch, commits []git.Commit) (keep []string, err error) {
	unseen := f.unseen(on, commits)
	if len(unseen) == 0 {
		return nil, nil
	}
	found := &foundEdits{edits: map[appcontext.PairKey]appcontext.ExternalEdit{}, held: map[pair.Target]bool{}}
	for _, c := range comparisons(unseen) {
		paths, err := f.Differ.Changed(ctx, repo, git.Difference{Before: c.before, After: c.commit.ID, Under: "clusters", Limit: maxPaths})
		switch {
		case errs.Is(err, errs.Unavailable), errs.Is(err, errs.Throttled), ctx.Err() != nil:
			return nil, err
		case err != nil:
			f.Log.Warn("a commit by others cannot be compared", "repo", on.URL, "branch", on.Name, "commit", c.commit.ID, "err", err)
			continue
		}
		f.attribute(ctx, on, c.commit, paths, found)
	}
	due, err := f.Pairs.NoteEdits(ctx, found.edits, found.held)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	if f.inspected == nil {
		f.inspected = map[route.Branch]git.Hash{}
	}
	f.inspected[on] = commits[0].ID
	f.mu.Unlock()
	for _, t := range due {
		f.RequeueLater(t) // ctx ends with the commit in progress
	}
	f.WriteEvents(ctx)
	return found.keep, nil
}

// unseen returns the commits that were not inspected yet, oldest first.
func (f *editFinder) unseen(on route.Branch, commits []git.Commit) (out []git.Commit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range commits {
		if c.ID == f.inspected[on] {
			break
		}
		out = append(out, c)
	}
	slices.Reverse(out)
	return out
}

// comparison is a commit and the one that it is compared with.
type comparison struct {
	before git.Hash
	commit git.Commit
}

// comparisons returns how commits, oldest first, are compared.
func comparisons(commits []git.Commit) (out []comparison) {
	parent := func(c git.Commit) git.Hash {
		if len(c.Parents) == 0 {
			return ""
		}
		return c.Parents[0]
	}
	if len(commits) > maxCommits {
		return []comparison{{parent(commits[0]), commits[len(commits)-1]}}
	}
	for _, c := range commits {
		out = append(out, comparison{parent(c), c})
	}
	return out
}

// attribute finds the targets that own the paths which a commit changed.
func (f *editFinder) attribute(ctx context.Context, on route.Branch, c git.Commit, paths []string, found *foundEdits) {
	lookup := f.Routes.Lookup()
	for _, path := range paths {
		for _, t := range f.targetsNear(path) {
			r, err := lookup.Route(ctx, t.Cluster)
			if err != nil || r.Backend == nil || on != r.Branch() || r.Role(f.Shard) != route.Deliver {
				continue
			}
			apps, owned := owners(path, r.Target(t.Cluster, t.Deployment), r.Backend, f.Pairs.Of(t))
			if !owned {
				continue
			}
			if r.Settings.Hold {
				found.held[t] = true
				found.keep = append(found.keep, path)
			}
			for _, app := range apps {
				found.add(appcontext.PairKey{Cluster: t.Cluster, Deployment: t.Deployment, App: app}, c, path)
			}
		}
	}
}

// targetsNear returns the targets of the cluster that a path names.
func (f *editFinder) targetsNear(path string) (out []pair.Target) {
	part := strings.Split(path, "/") // clusters/C/… or clusters/xx/C/…
	for _, cluster := range part[min(1, len(part)):min(3, len(part))] {
		out = append(out, f.Pairs.On(v2.ClusterKey(cluster))...)
	}
	return out
}

// owners reports whether a target owns a path, and which of its apps do: all, if the path
// belongs to no single app.
func owners(path string, t syncer.Target, b syncer.Backend, pairs []appcontext.Pair) (apps []string, owned bool) {
	rest, inside := strings.CutPrefix(path, t.Dir()+"/")
	if !inside {
		p, points := b.(syncer.PointerBackend)
		if !points || !slices.Contains(p.Pointers(t), path) {
			return nil, false
		}
	}
	part := strings.Split(rest, "/")
	for _, p := range pairs {
		if inside && len(part) > 1 && part[0] == "app" && part[1] != p.Key.App {
			continue
		}
		apps = append(apps, p.Key.App)
	}
	return apps, true
}

func (f *foundEdits) add(k appcontext.PairKey, c git.Commit, path string) {
	e, again := f.edits[k]
	if !again || e.Commit != string(c.ID) {
		e = appcontext.ExternalEdit{Commit: string(c.ID), Author: pair.Clip(c.Author)}
	}
	if len(e.Paths) < maxNamed {
		e.Paths = append(e.Paths, path)
	} else {
		e.More++
	}
	f.edits[k] = e
}
