package rsync

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// Others may write to our branches, and now and then to files of ours. Commits of others are
// seen before anything is written on top of them, and when the branch is looked at. What
// they changed is compared with what pairs own; an edit is noted with its pair, told in its
// deployment's events, and written over, or held where the sync object says so.

// The bounds of what is looked into.
const (
	maxForeign = 20   // commits that are told apart; of more, all together are the last one's
	maxChanged = 5000 // paths of one of them
	maxNamed   = 5    // paths that are named with a pair
)

// differ tells what commits changed.
type differ interface {
	Changed(ctx context.Context, r git.Repo, d git.Difference) ([]string, error)
}

// inspected remembers up to which commit branches were looked into.
type inspected struct {
	mu sync.Mutex
	at map[route.Branch]git.Hash
}

// fresh returns the commits that were not looked into yet, oldest first, of a list that
// begins with the newest.
func (n *inspected) fresh(b route.Branch, commits []git.Commit) (out []git.Commit) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range commits {
		if c.ID == n.at[b] {
			break
		}
		out = append(out, c)
	}
	slices.Reverse(out)
	return out
}

func (n *inspected) done(b route.Branch, newest git.Hash) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.at == nil {
		n.at = map[route.Branch]git.Hash{}
	}
	n.at[b] = newest
}

// inspect looks into commits of others on a branch, the newest first. It returns the paths
// that are to be left as they are.
func (d *dispatcher) inspect(ctx context.Context, repo git.Repo, on route.Branch, commits []git.Commit) (keep []string, err error) {
	fresh := d.inspected.fresh(on, commits)
	if len(fresh) == 0 {
		return nil, nil
	}
	found := &foreignEdits{edits: map[appcontext.PairKey]appcontext.ForeignEdit{}, held: map[pair.Target]bool{}}
	for _, step := range stepsOf(fresh) {
		paths, err := d.differ.Changed(ctx, repo, git.Difference{Before: step.before, After: step.commit.ID, Under: "clusters", Limit: maxChanged})
		switch {
		case errs.Is(err, errs.Unavailable), errs.Is(err, errs.Throttled), ctx.Err() != nil:
			return nil, err
		case err != nil:
			d.log.Warn("what somebody else committed cannot be looked into", "repo", on.URL, "branch", on.Name, "commit", step.commit.ID, "err", err)
			continue
		}
		d.attribute(ctx, on, step.commit, paths, found)
	}
	due, err := d.ledger.NoteEdits(ctx, found.edits, found.held)
	if err != nil {
		return nil, err
	}
	d.inspected.done(on, commits[0].ID)
	for _, t := range due {
		d.alarms.Set(t, 0) // the context of a commit ends with it
	}
	d.tell(ctx)
	return found.keep, nil
}

// compared is what one commit is compared with.
type compared struct {
	before git.Hash
	commit git.Commit
}

// stepsOf are the comparisons of commits, which are in order, oldest first.
func stepsOf(commits []git.Commit) (out []compared) {
	first := func(c git.Commit) git.Hash {
		if len(c.Parents) == 0 {
			return ""
		}
		return c.Parents[0]
	}
	if len(commits) > maxForeign {
		return []compared{{first(commits[0]), commits[len(commits)-1]}}
	}
	for _, c := range commits {
		out = append(out, compared{first(c), c})
	}
	return out
}

// foreignEdits are what others did to files of ours.
type foreignEdits struct {
	edits map[appcontext.PairKey]appcontext.ForeignEdit
	held  map[pair.Target]bool
	keep  []string
}

// attribute finds out whose files a commit of somebody else has changed.
func (d *dispatcher) attribute(ctx context.Context, on route.Branch, c git.Commit, paths []string, found *foreignEdits) {
	trip := d.gateway.Lookup()
	for _, path := range paths {
		for _, t := range d.near(path) {
			dest, err := trip.Route(ctx, t.Cluster)
			if err != nil || dest.Backend == nil || on != dest.Branch() || dest.Role(d.shard) != route.Deliver {
				continue
			}
			apps, owned := owned(path, dest.Target(t.Cluster, t.UID), dest.Backend, d.ledger.Of(t))
			if !owned {
				continue
			}
			if dest.Settings.Hold {
				found.held[t] = true
				found.keep = append(found.keep, path)
			}
			for _, app := range apps {
				found.add(appcontext.PairKey{Cluster: t.Cluster, UID: t.UID, App: app}, c, path)
			}
		}
	}
}

// near returns the targets of the cluster that a path is about, if any.
func (d *dispatcher) near(path string) (out []pair.Target) {
	part := strings.Split(path, "/") // clusters/C/… or clusters/xx/C/…
	for _, cluster := range part[min(1, len(part)):min(3, len(part))] {
		out = append(out, d.ledger.On(cluster)...)
	}
	return out
}

// owned reports whether a path is a target's, and of which apps: of all where it tells them
// not apart.
func owned(path string, t syncer.Target, b syncer.Backend, pairs []appcontext.Pair) (apps []string, is bool) {
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

func (f *foreignEdits) add(k appcontext.PairKey, c git.Commit, path string) {
	e, again := f.edits[k]
	if !again || e.Commit != string(c.ID) {
		e = appcontext.ForeignEdit{Commit: string(c.ID), Author: pair.Clip(c.Author)}
	}
	if len(e.Paths) < maxNamed {
		e.Paths = append(e.Paths, path)
	} else {
		e.More++
	}
	f.edits[k] = e
}

// lookAround looks at all branches of the shard, now and then, until ctx ends: one read of
// each, and more only where somebody else has written.
func (d *dispatcher) lookAround(ctx context.Context, every time.Duration) {
	if every <= 0 || d.differ == nil {
		return
	}
	for queue.Pause(ctx, every); ctx.Err() == nil; queue.Pause(ctx, every) {
		trip := d.gateway.Lookup()
		for on, t := range d.tenants.some() {
			dest, err := trip.Route(ctx, t.Cluster)
			if err != nil || on != dest.Branch() {
				continue
			}
			if _, _, err := d.git.submit(ctx, batch.Job{Repo: dest.Settings.Repo, Branch: on.Name}); err != nil && ctx.Err() == nil {
				d.log.Debug("a branch cannot be looked at", "repo", on.URL, "branch", on.Name, "err", err)
			}
		}
	}
}

// some returns the branches on which targets are, each with one of them.
func (n *tenants) some() map[route.Branch]pair.Target {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make(map[route.Branch]pair.Target, len(n.on))
	for b, all := range n.on {
		for t := range all {
			out[b] = t
			break
		}
	}
	return out
}
