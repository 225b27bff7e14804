package review_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/review"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

const (
	app    store.Key = "projects/shop/composite-apps/till/v1"
	autumn           = app + "/deployment-intent-groups/autumn"
	winter           = app + "/deployment-intent-groups/winter"
)

// desk is records over a store with the composite app and two groups.
type desk struct {
	*testing.T
	*review.Records
}

func newDesk(t *testing.T) desk {
	t.Helper()
	d := desk{t, &review.Records{DB: resourcetest.DB(t), Projects: []string{"shop"}, Now: time.Now}}
	for _, k := range []store.Key{app, autumn, winter} {
		d.must(d.DB.Create(t.Context(), store.Write{Key: k, Body: []byte("{}")}))
	}
	return d
}

func (d desk) must(_ store.Doc, err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// by is a request of a caller.
func (d desk) by(who string) context.Context {
	return store.WithNotary(authn.With(d.Context(), authn.Caller{Subject: who}), d.Records)
}

// put creates or replaces a document on behalf of a caller.
func (d desk) put(who string, k store.Key) {
	d.Helper()
	w := store.Write{Key: k, Body: []byte("{}")}
	if _, err := d.DB.Get(d.Context(), k); err == nil {
		d.must(d.DB.Replace(d.by(who), w, 0))
		return
	}
	d.must(d.DB.Create(d.by(who), w))
}

// open returns who has changed what of a group since a review.
func (d desk) open(group store.Key, since *appcontext.Reviewed) string {
	d.Helper()
	var out []string
	_, err := d.Review(d.Context(), group, since, true, func(c review.Changes) error {
		for _, one := range c.All {
			out = append(out, one.Subject+" "+strings.TrimPrefix(string(one.Key), string(app)))
		}
		if c.Forgotten {
			out = append(out, "others")
		}
		return nil
	})
	if err != nil {
		d.Fatal(err)
	}
	return strings.Join(out, ", ")
}

func (d desk) wants(what, want string, group store.Key, since *appcontext.Reviewed) {
	d.Helper()
	if got := d.open(group, since); got != want {
		d.Errorf("%s: open are %q, want %q", what, got, want)
	}
}

func (d desk) review(group store.Key, since *appcontext.Reviewed) *appcontext.Reviewed {
	d.Helper()
	r, err := d.Review(d.Context(), group, since, false, func(review.Changes) error { return nil })
	if err != nil {
		d.Fatal(err)
	}
	return r
}

func TestChangesAreOpenUntilTheirGroupIsReviewed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.wants("nothing was noted", "", autumn, nil)
	d.put("ann", app+"/apps/web")
	d.put("ann", app+"/apps/db") // what one changes is one change
	d.put("bob", autumn+"/intents/all")
	d.put("eve", "projects/shop/logical-clouds/stores")           // not deployed
	d.put("eve", "projects/bank/composite-apps/till/v1/apps/web") // another project
	d.wants("a group", "ann /apps/web, bob /deployment-intent-groups/autumn/intents/all", autumn, nil)
	d.wants("another group of the app", "ann /apps/web", winter, nil)

	first := d.review(autumn, nil)
	d.wants("after its review", "", autumn, first)
	d.wants("without a review of its own", "ann /apps/web", winter, nil)
	if err := d.DB.Delete(d.by("ann"), app+"/apps/web", nil); err != nil {
		t.Fatal(err)
	}
	d.wants("a deletion", "ann /apps/web", autumn, first)
	d.wants("a change after a review of the other group", "ann /apps/web", winter, nil)
	d.put("bob", winter)
	d.wants("a change of the other group", "ann /apps/web", autumn, first)
	d.wants("what is open stays so without a review", "ann /apps/web", autumn, first)
}

// between has a group reviewed after a change is noted and before it is made.
type between struct {
	*review.Records
	then func()
}

func (b *between) Note(ctx context.Context, k store.Key, deletes bool) error {
	err := b.Records.Note(ctx, k, deletes)
	if b.then != nil {
		then := b.then
		b.then = nil
		then()
	}
	return err
}

func TestAReviewCoversNoChangeThatComesMeanwhile(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.put("ann", autumn+"/intents/all")
	last := d.review(autumn, nil)
	for what, change := range map[string]func(context.Context) error{
		"a replacement": func(ctx context.Context) error {
			_, err := d.DB.Replace(ctx, store.Write{Key: autumn + "/intents/all", Body: []byte("[]")}, 0)
			return err
		},
		"a creation": func(ctx context.Context) error {
			_, err := d.DB.Create(ctx, store.Write{Key: autumn + "/intents/more", Body: []byte("{}")})
			return err
		},
	} {
		n := &between{d.Records, func() { last = d.review(autumn, last) }}
		if err := change(store.WithNotary(d.by("ann"), n)); err != nil {
			t.Fatal(err)
		}
		if got := d.open(autumn, last); !strings.HasPrefix(got, "ann ") {
			t.Errorf("%s: open are %q, want the one that was made after the review", what, got)
		}
		last = d.review(autumn, last)
	}
}

func TestTheRecordOfAGroupGoesWithIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	kept := func() (n int) {
		for _, err := range d.DB.List(t.Context(), "reviews", store.Query{}) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	d.put("ann", autumn)
	last := d.review(autumn, nil)
	if kept() != 1 {
		t.Fatalf("%d records, want 1", kept())
	}
	if err := d.DB.Delete(d.by("ann"), autumn, nil); err != nil || kept() != 0 {
		t.Errorf("after the deletion: %d records, %v", kept(), err)
	}
	d.put("bob", autumn)
	d.wants("the next group of the name", "bob /deployment-intent-groups/autumn", autumn, nil)
	d.put("bob", autumn)
	d.review(autumn, last)
}

// Who changed something may be the holder of a token, or who made the token.
func TestATokenAndItsMakerAreOneCaller(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.Makers = func(subject string) []string { return map[string][]string{"token:ci": {"user:ann"}}[subject] }
	for _, c := range []struct{ changes, asks, found string }{
		{"token:ci", "user:ann", "token:ci"},
		{"user:ann", "token:ci", "user:ann"},
		{"token:ci", "user:bob", ""},
		{"token:cd", "token:ci", ""},
	} {
		d := d
		d.Records = &review.Records{DB: resourcetest.DB(t), Projects: []string{review.All}, Makers: d.Makers, Now: time.Now}
		d.put(c.changes, autumn)
		_, err := d.Review(t.Context(), autumn, nil, true, func(open review.Changes) error {
			if got, _ := d.Mine(open, c.asks); got.Subject != c.found {
				t.Errorf("%s changes, %s asks: its change is of %q, want %q", c.changes, c.asks, got.Subject, c.found)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestRecordsAreBounded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	last := d.review(autumn, nil)
	for i := range 101 {
		d.put(fmt.Sprint("caller", i), autumn)
	}
	if got := d.open(autumn, last); strings.Count(got, "caller") != 100 || strings.Contains(got, "caller0 ") || !strings.HasSuffix(got, ", others") {
		t.Errorf("of 101 callers, open are %q", got)
	}
	d.wants("after a review", "", autumn, d.review(autumn, last))
}

// Whoever notes at the same time loses no change of others.
func TestManyChangeAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var all sync.WaitGroup
	want := []string{}
	for i := range 8 {
		who := fmt.Sprint("caller", i)
		want = append(want, who+" /apps/"+who)
		all.Go(func() {
			if _, err := d.DB.Create(d.by(who), store.Write{Key: app + "/apps/" + store.Key(who), Body: []byte("{}")}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got := strings.Split(d.open(autumn, nil), ", ")
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("open are %q, want %q", got, want)
	}
}

// interrupted is a driver on which something happens just before it works with a record for the n-th time while the group autumn does
// not exist.
type interrupted struct {
	store.Driver
	n    int
	what func()
}

func (i *interrupted) before(ctx context.Context, k store.Key) {
	if _, err := i.Driver.Get(ctx, autumn); err == nil || !strings.HasPrefix(string(k), "reviews/") {
		return
	}
	if i.n--; i.n == 0 {
		i.what()
	}
}

func (i *interrupted) Get(ctx context.Context, k store.Key) (store.Doc, error) {
	i.before(ctx, k)
	return i.Driver.Get(ctx, k)
}

func (i *interrupted) Put(ctx context.Context, d store.Doc, at int64) error {
	i.before(ctx, d.Key)
	return i.Driver.Put(ctx, d, at)
}

// Whoever creates a group while the record of its predecessor goes is noted, also a caller who had changed the predecessor.
func TestWhoCreatesAGroupWhileItsPredecessorGoesIsNoted(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 3; n++ {
		for _, changed := range []string{"ann", "bob"} {
			driver, blobs := resourcetest.Driver(t)
			d := desk{t, &review.Records{DB: store.New(driver, blobs, seal.New(seal.NewKey())), Projects: []string{"shop"}, Now: time.Now}}
			for _, k := range []store.Key{app, autumn} {
				d.must(d.DB.Create(t.Context(), store.Write{Key: k, Body: []byte("{}")}))
			}
			d.put(changed, autumn+"/placement-intents/p")
			if err := d.DB.Delete(t.Context(), autumn+"/placement-intents/p", nil); err != nil {
				t.Fatal(err)
			}
			created := false
			slow := &interrupted{Driver: driver, n: n, what: func() {
				d.put("ann", autumn)
				created = true
			}}
			late := desk{t, &review.Records{DB: store.New(slow, blobs, seal.New(seal.NewKey())), Projects: []string{"shop"}, Now: time.Now}}
			if err := late.DB.Delete(late.by("ann"), autumn, nil); err != nil {
				t.Fatal(err)
			}
			if !created {
				t.Fatalf("the removal of a record has no step %d", n)
			}
			if got := d.open(autumn, nil); !strings.Contains(got, "ann /deployment-intent-groups/autumn") {
				t.Errorf("created by ann before step %d of the removal of a record that names %s: noted is %q", n, changed, got)
			}
		}
	}
}

// A change of the group's own document counts again each time, but refusals name what its caller changed first.
func TestRefusalsNameTheFirstChange(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.put("ann", autumn+"/placement-intents/p")
	d.put("ann", autumn)
	d.wants("after two changes", "ann /deployment-intent-groups/autumn/placement-intents/p", autumn, nil)
}
