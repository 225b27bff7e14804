package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"golang.org/x/sync/errgroup"
)

var driverRules = []struct {
	name  string
	check func(context.Context, pair) error
}{
	{"a document comes back as it was written", roundTrip},
	{"what does not exist is not found", absent},
	{"a key is taken once", takenOnce},
	{"a creation can depend on other documents", dependent},
	{"a replacement needs the tag", needsTag},
	{"a removal needs the tag", removal},
	{"of racing writers one wins", race},
	{"a listing is in byte order and respects name boundaries", order},
	{"a listing can be cut by depth", byDepth},
	{"a listing can be paged", paged},
	{"holders are found by references and claims", holders},
	{"several documents are read together", together},
	{"a refused write leaves nothing", refused},
	{"a consumer may write while it lists", writingConsumer},
	{"callers may change results", ownMemory},
	{"a call whose context has ended fails", over},
	{"changes contain what was written", changes},
	{"followers know every acknowledged write", told},
	{"large documents fit", large}, // last: FerretDB reads it for each list of documents
}

// together holds for drivers that are batchers, and for all others too.
func together(ctx context.Context, p pair) error {
	want := func(names string, in ...string) error {
		var keys []store.Key
		for _, k := range in {
			keys = append(keys, p.key(k))
		}
		got := ""
		for d, err := range store.GetEach(ctx, p.Driver, keys) {
			if err != nil {
				return err
			}
			got += fmt.Sprintf("%s:%d ", d.Key[len(p.root)+1:], d.Tag)
		}
		if got != names {
			return fmt.Errorf("GetEach(%q) = %q, want %q", in, got, names)
		}
		return nil
	}
	return first(
		func() error { return p.put(ctx, 1, "a", "b", "b/c") },
		func() error { return want("") },
		func() error { return want("b/c:1 a:1 ", "b/c", "none", "a") },
		func() error { return p.Put(ctx, p.doc("a", 2), 1) },
		func() error { return p.Remove(ctx, p.key("b"), 1) },
		func() error { return want("b/c:1 a:2 ", "b/c", "b", "a") },
	)
}

// changes holds for drivers that are followers.
func changes(ctx context.Context, p pair) error {
	if _, ok := p.Driver.(store.Follower); !ok {
		return nil
	}
	if err := p.put(ctx, 1, "a", "b", "c"); err != nil {
		return err
	}
	begin, err := p.Driver.(store.Follower).Changes(ctx, 0)
	if err != nil || !begin.All {
		return fmt.Errorf("changes without a mark: %+v, %w; want that all may have changed", begin, err)
	}
	return first(
		func() error { return p.other.Put(ctx, p.doc("a", 2), 1) },
		func() error { return p.Remove(ctx, p.key("b"), 1) },
		func() error { return p.put(ctx, 1, "d") },
		func() error { return p.hasChanges(ctx, p.Driver, begin.Mark) },
		func() error { return p.hasChanges(ctx, p.other, begin.Mark) },
	)
}

// hasChanges checks that a, b and d are among the changes since a mark, and c is not.
func (p pair) hasChanges(ctx context.Context, d store.Driver, mark int64) error {
	got, err := d.(store.Follower).Changes(ctx, mark)
	if err != nil || got.All {
		return fmt.Errorf("changes since %d: %+v, %w", mark, got, err)
	}
	for _, name := range []string{"a", "b", "d"} {
		if !slices.Contains(got.Keys, p.key(name)) {
			return fmt.Errorf("changes since %d: %v, want %s among them", mark, got.Keys, p.key(name))
		}
	}
	later, err := d.(store.Follower).Changes(ctx, got.Mark)
	if err != nil || slices.Contains(got.Keys, p.key("c")) || slices.Contains(later.Keys, p.key("d")) {
		return fmt.Errorf("changes: %v, and since then %v, %w; want neither earlier changes nor those of the last call", got.Keys, later.Keys, err)
	}
	return nil
}

func roundTrip(ctx context.Context, p pair) error {
	full := p.doc("full", 7)
	bare := store.Doc{Key: p.key("bare"), UID: "1", Rev: 1, Tag: 1, Created: full.Created, Updated: full.Created, Since: full.Created}
	next := full
	next.Tag, next.Rev, next.State, next.Claims, next.Secret = 8, 9, store.Live, nil, nil
	next.Body = []byte("{}")
	return first(
		func() error { return p.Put(ctx, full, 0) },
		func() error { return p.stored(ctx, full) },
		func() error { return p.Put(ctx, bare, 0) },
		func() error { return p.stored(ctx, bare) },
		func() error { return p.other.Put(ctx, next, 7) },
		func() error { return p.stored(ctx, next) },
	)
}

func absent(ctx context.Context, p pair) error {
	_, err := p.Get(ctx, p.key("none"))
	return first(
		func() error { return kind("Get", err, errs.NotFound) },
		func() error { return p.lists(ctx, "", store.Query{}) },
		func() error { return kind("Put at a tag", p.Put(ctx, p.doc("none", 2), 1), errs.Conflict) },
		func() error { return p.Remove(ctx, p.key("none"), 1) },
	)
}

func takenOnce(ctx context.Context, p pair) error {
	return first(
		func() error { return p.put(ctx, 1, "a") },
		func() error { return kind("Put at 0", p.other.Put(ctx, p.doc("a", 2), 0), errs.Exists) },
		func() error { return p.stored(ctx, p.doc("a", 1)) },
	)
}

// dependent holds for drivers that are creators.
func dependent(ctx context.Context, p pair) error {
	c, ok := p.Driver.(store.Creator)
	if !ok {
		return nil
	}
	create := func(name string, others map[string]int64) error {
		tags := map[store.Key]int64{}
		for k, tag := range others {
			tags[p.key(k)] = tag
		}
		return c.Create(ctx, p.doc(name, 9), tags)
	}
	return first(
		func() error { return p.put(ctx, 5, "a", "b") },
		func() error { return create("c", map[string]int64{"a": 5, "b": 5, "none": 0}) },
		func() error { return p.stored(ctx, p.doc("c", 9)) },
		func() error { return kind("Create of what exists", create("c", nil), errs.Exists) },
		func() error {
			return kind("Create at another tag", create("d", map[string]int64{"a": 5, "b": 4}), errs.Conflict)
		},
		func() error {
			return kind("Create while there is none", create("d", map[string]int64{"none": 5}), errs.Conflict)
		},
		func() error {
			return kind("Create while there is one", create("d", map[string]int64{"a": 0}), errs.Conflict)
		},
		func() error { return p.other.Put(ctx, p.doc("a", 6), 5) },
		func() error {
			return kind("Create after a change", create("d", map[string]int64{"a": 5}), errs.Conflict)
		},
		func() error { return create("d", map[string]int64{"a": 6}) },
		func() error { return p.other.Remove(ctx, p.key("a"), 6) },
		func() error {
			return kind("Create after a removal", create("e", map[string]int64{"a": 6}), errs.Conflict)
		},
		func() error { return p.lists(ctx, "", store.Query{}, "b", "c", "d") },
	)
}

func needsTag(ctx context.Context, p pair) error {
	return first(
		func() error { return p.put(ctx, 5, "a") },
		func() error { return kind("Put at another tag", p.Put(ctx, p.doc("a", 6), 4), errs.Conflict) },
		func() error { return kind("Put at a later tag", p.Put(ctx, p.doc("a", 6), 6), errs.Conflict) },
		func() error { return p.stored(ctx, p.doc("a", 5)) },
		func() error { return p.Put(ctx, p.doc("a", 3), 5) },
		func() error { return p.stored(ctx, p.doc("a", 3)) },
	)
}

func removal(ctx context.Context, p pair) error {
	return first(
		func() error { return p.put(ctx, 5, "a", "a/b") },
		func() error { return kind("Remove at another tag", p.Remove(ctx, p.key("a"), 4), errs.Conflict) },
		func() error { return p.stored(ctx, p.doc("a", 5)) },
		func() error { return p.other.Remove(ctx, p.key("a"), 5) },
		func() error { return p.lists(ctx, "", store.Query{}, "a/b") },
		func() error { return p.put(ctx, 6, "a") },
	)
}

// race lets writers of both handles create one document, and then replace it.
func race(ctx context.Context, p pair) error {
	if err := raceFor(ctx, p, 0, 1, errs.Exists); err != nil {
		return err
	}
	d, err := p.Get(ctx, p.key("a"))
	if err != nil {
		return err
	}
	return raceFor(ctx, p, d.Tag, 100, errs.Conflict)
}

func raceFor(ctx context.Context, p pair, at, from int64, lost errs.Kind) error {
	const writers = 8
	results := make([]error, writers)
	var g errgroup.Group
	for i := range results {
		g.Go(func() error {
			d := []store.Driver{p.Driver, p.other}[i%2]
			results[i] = d.Put(ctx, p.doc("a", from+int64(i)), at)
			return nil
		})
	}
	_ = g.Wait()
	winner := -1
	for i, err := range results {
		switch {
		case err == nil && winner >= 0:
			return fmt.Errorf("two Puts at %d of one document succeeded", at)
		case err == nil:
			winner = i
		default:
			if err := kind("Put", err, lost); err != nil {
				return err
			}
		}
	}
	if winner < 0 {
		return fmt.Errorf("no Put at %d succeeded", at)
	}
	return p.stored(ctx, p.doc("a", from+int64(winner)))
}

func order(ctx context.Context, p pair) error {
	return first(
		func() error {
			return p.put(ctx, 1, "b/x", "b", "bc/x", "b-/x", "b0/x", "a", "b/y/z", "b/ü", "B/x", "b/Z")
		},
		func() error { return p.lists(ctx, "b", store.Query{}, "b/Z", "b/x", "b/y/z", "b/ü") },
		func() error {
			return p.lists(ctx, "", store.Query{}, "B/x", "a", "b", "b-/x", "b/Z", "b/x", "b/y/z", "b/ü", "b0/x", "bc/x")
		},
		func() error { return p.lists(ctx, "a", store.Query{}) },
		func() error { return everything(ctx, p) },
	)
}

// everything checks a listing of the whole store.
func everything(ctx context.Context, p pair) error {
	var got []store.Key
	for d, err := range p.List(ctx, "", store.Query{}) {
		if err != nil {
			return err
		}
		got = append(got, d.Key)
	}
	if !slices.IsSorted(got) || !slices.Contains(got, p.key("bc/x")) || !slices.Contains(got, p.key("b")) {
		return fmt.Errorf("list of everything = %q, want all keys in order", got)
	}
	return nil
}

func byDepth(ctx context.Context, p pair) error {
	top := store.Query{Depth: 1}
	return first(
		func() error { return p.put(ctx, 1, "c/a", "c/a/v1", "c/a/v1/d/x", "c/b", "c/b/v1", "c/b/v2", "ca/v3") },
		func() error { return p.lists(ctx, "c", top, "c/a", "c/b") },
		func() error { return p.lists(ctx, "c", store.Query{Depth: 2}, "c/a/v1", "c/b/v1", "c/b/v2") },
		func() error {
			return p.lists(ctx, "c", store.Query{Depth: 2, After: p.key("c/a/v1"), Limit: 1}, "c/b/v1")
		},
		func() error { return p.lists(ctx, "c", store.Query{Depth: 3}) },
		func() error { return p.Put(ctx, store.Doc{Key: p.root, Tag: 1}, 0) },
		func() error {
			for d, err := range p.List(ctx, "", top) {
				if err != nil || d.Key == p.root {
					return err
				}
			}
			return errors.New("list at depth 1 of everything lacks a root")
		},
	)
}

// paged uses more documents than drivers fetch at once.
func paged(ctx context.Context, p pair) error {
	const n = 130
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("p/%03d", i)
	}
	return first(
		func() error { return p.put(ctx, 1, names...) },
		func() error { return p.lists(ctx, "p", store.Query{}, names...) },
		func() error { return p.lists(ctx, "p", store.Query{Limit: 70}, names[:70]...) },
		func() error { return p.lists(ctx, "p", store.Query{Limit: n}, names...) },
		func() error { return p.lists(ctx, "p", store.Query{After: p.key("p/069"), Limit: 3}, names[70:73]...) },
		func() error { return p.lists(ctx, "p", store.Query{After: p.key("p/0695")}, names[70:]...) },
		func() error { return p.lists(ctx, "p", store.Query{After: p.key("p/129")}) },
		func() error { return p.lists(ctx, "p", store.Query{After: p.key("a"), Limit: 1}, names[0]) },
	)
}

func holders(ctx context.Context, p pair) error {
	a, b, c := p.doc("h/a", 1), p.doc("h/b", 1), p.doc("i/c", 1)
	a.Refs, a.Claims = []store.Key{p.key("t"), p.key("u")}, nil
	b.Refs, b.Claims = nil, []store.Key{p.key("t")}
	c.Refs, c.Claims = []store.Key{p.key("t")}, []store.Key{p.key("t")}
	of := func(target string) store.Query { return store.Query{Refers: p.key(target)} }
	dropped := a
	dropped.Tag, dropped.Refs = 2, []store.Key{p.key("u")}
	again := p.doc("h/b", 3) // the same key, without references
	again.Refs, again.Claims = nil, nil
	return first(
		func() error { return errors.Join(p.Put(ctx, c, 0), p.Put(ctx, b, 0), p.Put(ctx, a, 0)) },
		func() error { return p.lists(ctx, "", of("t"), "h/a", "h/b", "i/c") },
		func() error { return p.lists(ctx, "h", of("t"), "h/a", "h/b") },
		func() error { return p.lists(ctx, "i", store.Query{Refers: p.key("t"), Depth: 1}, "i/c") },
		func() error { return p.lists(ctx, "", store.Query{Refers: p.key("t"), After: a.Key, Limit: 1}, "h/b") },
		func() error { return p.lists(ctx, "", of("u"), "h/a") },
		func() error { return p.other.Put(ctx, dropped, 1) },
		func() error { return p.lists(ctx, "", of("t"), "h/b", "i/c") },
		func() error { return p.lists(ctx, "", of("u"), "h/a") },
		func() error { return p.Remove(ctx, b.Key, 1) },
		func() error { return p.lists(ctx, "", of("t"), "i/c") },
		func() error { return p.Put(ctx, again, 0) },
		func() error { return p.lists(ctx, "", of("t"), "i/c") },
		func() error { return p.lists(ctx, "", of("")) },
	)
}

func refused(ctx context.Context, p pair) error {
	bad := p.doc("a", 2)
	bad.Refs = []store.Key{p.key("target")}
	return first(
		func() error { return p.put(ctx, 1, "a") },
		func() error { return kind("Put at 0", p.Put(ctx, bad, 0), errs.Exists) },
		func() error { return kind("Put at another tag", p.Put(ctx, bad, 3), errs.Conflict) },
		func() error { return kind("Remove at another tag", p.Remove(ctx, bad.Key, 3), errs.Conflict) },
		func() error { return p.lists(ctx, "", store.Query{Refers: p.key("target")}) },
		func() error { return p.lists(ctx, "", store.Query{Refers: p.key("r1")}, "a") },
	)
}

func writingConsumer(ctx context.Context, p pair) error {
	var names []string
	for i := range 70 {
		names = append(names, fmt.Sprintf("w/%03d", i))
	}
	if err := p.put(ctx, 1, names...); err != nil {
		return err
	}
	var seen []string
	for d, err := range p.List(ctx, p.key("w"), store.Query{}) {
		if err != nil {
			return err
		}
		seen = append(seen, string(d.Key[len(p.root)+1:]))
		if err := p.Remove(ctx, d.Key, d.Tag); err != nil {
			return err
		}
		if len(seen) == 66 {
			break
		}
	}
	if !slices.Equal(seen, names[:66]) {
		return fmt.Errorf("a consumer that removes saw %q", seen)
	}
	return p.lists(ctx, "w", store.Query{}, names[66:]...)
}

func ownMemory(ctx context.Context, p pair) error {
	given := p.doc("a", 1)
	given.Body = []byte("original")
	if err := p.Put(ctx, given, 0); err != nil {
		return err
	}
	clear(given.Body)
	for range 2 {
		d, err := p.Get(ctx, given.Key)
		if err != nil {
			return err
		}
		if string(d.Body) != "original" || d.Refs[0] != p.key("r1") {
			return errors.New("a caller's change of its copy reached the store")
		}
		clear(d.Body)
		clear(d.Refs)
	}
	return nil
}

func large(ctx context.Context, p pair) error {
	d := p.doc("large", 1)
	d.Body = bytes.Repeat([]byte("0123456789abcdef"), 8<<20/16)
	d.Refs = nil
	for i := range 500 {
		d.Refs = append(d.Refs, p.key(fmt.Sprintf("cluster-providers/provider/clusters/%05d", i)))
	}
	return first(
		func() error { return p.Put(ctx, d, 0) },
		func() error { return p.stored(ctx, d) },
		func() error { return p.lists(ctx, "", store.Query{Refers: d.Refs[499]}, "large") },
	)
}

func over(ctx context.Context, p pair) error {
	if err := p.put(ctx, 1, "a"); err != nil {
		return err
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	_, getErr := p.Get(done, p.key("a"))
	_, listErr := p.keys(done, "", store.Query{})
	return first(
		func() error { return kind("Get", getErr, errs.Unavailable) },
		func() error { return kind("List", listErr, errs.Unavailable) },
		func() error { return kind("Put", p.Put(done, p.doc("a", 2), 1), errs.Unavailable) },
		func() error { return kind("Remove", p.Remove(done, p.key("a"), 1), errs.Unavailable) },
	)
}
