package tree

// Tree returns a tree of the draft, or one that was there before.
func (d *Draft) Tree(id ID) (Tree, error) {
	if o, ok := d.Get(id); ok && o.Kind == Trees {
		return Decode(o.Content)
	}
	if id == Empty {
		return nil, nil
	}
	return d.read(id)
}

// Changes calls visit, in the order of the trees, for each file that differs from what was
// there before, and for each path that is gone, a directory as one: now is the zero entry
// then. It ends at the first error.
func (d *Draft) Changes(visit func(path string, now Entry) error) error {
	return d.changes(d.Root, d.from, "", visit)
}

func (d *Draft) changes(id, before ID, path string, visit func(string, Entry) error) error {
	if id == before {
		return nil
	}
	next, err := d.Tree(id)
	if err != nil {
		return err
	}
	old, err := d.Tree(before)
	if err != nil {
		return err
	}
	for _, was := range old {
		if next.Find(was.Name).Mode == 0 {
			if err := visit(Join(path, was.Name), Entry{}); err != nil {
				return err
			}
		}
	}
	for _, e := range next {
		if err := d.change(e, old.Find(e.Name), Join(path, e.Name), visit); err != nil {
			return err
		}
	}
	return nil
}

func (d *Draft) change(e, was Entry, path string, visit func(string, Entry) error) error {
	switch {
	case e.Is(was):
		return nil
	case e.IsTree():
		return d.changes(e.ID, was.Below(), path, visit)
	}
	return visit(path, e)
}
