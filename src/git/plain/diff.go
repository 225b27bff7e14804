package plain

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// Changed returns the paths that differ between two commits. Commits that are not cached are fetched,
// without files and without cached trees.
func (h *Host) Changed(ctx context.Context, r git.Repo, d git.Difference) ([]string, error) {
	var before, after commitTrees
	before.store = newStore()
	var err error
	if d.Before != "" {
		if before, err = h.snapshotAt(ctx, r, d.Before); err != nil {
			return nil, err
		}
	}
	if after, err = h.snapshotAt(ctx, r, d.After); err != nil {
		return nil, err
	}
	c := treeDiff{before: before, after: after, limit: d.Limit}
	old, err := before.entry(d.Under)
	if err == nil {
		var now tree.Entry
		if now, err = after.entry(d.Under); err == nil {
			err = c.compare(d.Under, old, now)
		}
	}
	if err != nil && !errors.Is(err, errStopped) {
		return nil, h.fail(ctx, r, "compare", err)
	}
	return c.paths, nil
}

// treeDiff collects the paths that differ between two commits.
type treeDiff struct {
	before, after commitTrees
	limit         int
	paths         []string
}

// compare compares the entries at a path; the zero entry is nothing.
func (c *treeDiff) compare(path string, was, is tree.Entry) error {
	switch {
	case was.ID == is.ID && was.Mode == is.Mode:
		return nil
	case len(c.paths) >= c.limit:
		return errStopped
	case !was.IsTree() && !is.IsTree():
		c.paths = append(c.paths, path)
		return nil
	}
	old, err := children(c.before, was)
	if err != nil {
		return err
	}
	now, err := children(c.after, is)
	if err != nil {
		return err
	}
	if was.Mode != 0 && !was.IsTree() || is.Mode != 0 && !is.IsTree() {
		c.paths = append(c.paths, path) // a file has become a directory, or the other way round
	}
	names := slices.Sorted(maps.Keys(old))
	for name := range now {
		if _, both := old[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if err := c.compare(tree.Join(path, name), old[name], now[name]); err != nil {
			return err
		}
	}
	return nil
}

// children returns the entries of a directory, none of anything else.
func children(s commitTrees, e tree.Entry) (map[string]tree.Entry, error) {
	out := map[string]tree.Entry{}
	if !e.IsTree() {
		return out, nil
	}
	entries, err := s.entries(e)
	for _, e := range entries {
		out[e.Name] = e
	}
	return out, err
}
