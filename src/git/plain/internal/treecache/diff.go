package treecache

import (
	"errors"
	"maps"
	"slices"

	"github.com/emco-orchestrator/emco/src/git/tree"
)

// Changed returns the paths at or below a directory that differ between two commits, in byte order,
// and at most limit of them.
func Changed(before, after Snapshot, under string, limit int) ([]string, error) {
	old, err := before.entry(under)
	if err != nil {
		return nil, err
	}
	now, err := after.entry(under)
	if err != nil {
		return nil, err
	}
	c := treeDiff{before: before, after: after, limit: limit}
	if err := c.compare(under, old, now); err != nil && !errors.Is(err, ErrStopped) {
		return nil, err
	}
	return c.paths, nil
}

// treeDiff collects the paths that differ between two commits.
type treeDiff struct {
	before, after Snapshot
	limit         int
	paths         []string
}

// compare compares the entries at a path; the zero entry is nothing.
func (c *treeDiff) compare(path string, was, is tree.Entry) error {
	switch {
	case was.ID == is.ID && was.Mode == is.Mode:
		return nil
	case len(c.paths) >= c.limit:
		return ErrStopped
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
func children(s Snapshot, e tree.Entry) (map[string]tree.Entry, error) {
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
