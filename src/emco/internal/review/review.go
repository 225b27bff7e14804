// Package review records who has changed a deployment intent group or its composite app since the last review, in
// projects where callers must not approve their own changes.
package review

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	records  = "reviews" // the collection of records: a document for each unit
	most     = 100       // callers that a record names
	maxTries = 16        // while others write the same record
	All      = "*"       // in Records.Projects: all projects
	groups   = "/deployment-intent-groups/"
)

// Records keeps, for each version of a composite app and each group of it (a unit), who has changed it. It is a
// store.Notary.
type Records struct {
	DB       *store.DB
	Projects []string                      // whose changes are noted; All for all
	Makers   func(subject string) []string // who made the API token that a subject is, and who made the token of that; nil: makers are not known
	Now      func() time.Time
}

// Change is the first change by a caller since a review.
type Change struct {
	Subject string    `json:"subject"`
	Makers  []string  `json:"makers,omitempty"` // of the caller's token
	Key     store.Key `json:"key"`
	At      time.Time `json:"at"`
	Seq     int64     `json:"seq"` // its number among the changes of the unit
}

// record is the stored record of a unit.
type record struct {
	Unit     store.Key `json:"unit"`
	Seq      int64     `json:"seq"`               // of the last change
	Reviewed int64     `json:"reviewed"`          // Seq at the last review of any group
	Dropped  int64     `json:"dropped,omitempty"` // the last change whose caller was removed from Changes
	Changes  []Change  `json:"changes"`           // one for each caller, oldest first

	rev int64 // of the document; 0: there is none
}

// Changes are the unreviewed changes of a group and of its composite app.
type Changes struct {
	All       []Change // oldest first in each unit
	Forgotten bool     // there are more, by callers whom the record no longer names
}

// Covers reports whether changes are noted in the project of a document.
func (r *Records) Covers(k store.Key) bool {
	return r != nil && (slices.Contains(r.Projects, All) || slices.Contains(r.Projects, k.Project()))
}

// Note notes that the caller of the request changes a document. What one caller changes between two reviews is one
// change, so most calls only read. A change of the unit's own document always writes: see forget. The record of a unit goes with its document.
func (r *Records) Note(ctx context.Context, k store.Key, deletes bool) error {
	caller, unit := authn.From(ctx).Subject, unitOf(k)
	if caller == "" || unit == "" || !r.Covers(k) {
		return nil
	}
	ctx = store.WithoutObservers(ctx)
	if deletes && k == unit {
		return r.forget(ctx, unit)
	}
	err := r.change(ctx, unit, func(all *record) bool {
		return all.note(Change{Subject: caller, Makers: r.makers(caller), Key: k, At: r.Now().UTC()}, k == unit)
	})
	if err != nil {
		return fmt.Errorf("note who changes %s (auth.fourEyes): %w", k, err)
	}
	return nil
}

// errNoted means that a record was written since it was read.
var errNoted = errors.New("it was written meanwhile")

// forget removes the record of a unit whose document is gone. A caller that creates the document again writes the record after that: it stays
// if it was written since it was read, which is before the look for the document.
func (r *Records) forget(ctx context.Context, unit store.Key) error {
	all, err := r.read(ctx, unit)
	if err != nil || all.rev == 0 {
		return err
	}
	if _, err := r.DB.Get(ctx, unit); !errs.Is(err, errs.NotFound) {
		return err
	}
	err = r.DB.Delete(ctx, keyOf(unit), func(_ context.Context, now store.Doc) error {
		if now.Rev != all.rev {
			return errNoted
		}
		return nil
	})
	if err != nil && !errs.Is(err, errs.NotFound) && !errors.Is(err, errNoted) {
		return fmt.Errorf("forget who changed %s: %w", unit, err)
	}
	return nil
}

func (r *Records) makers(subject string) []string {
	if r.Makers == nil {
		return nil
	}
	return r.Makers(subject)
}

// note adds a change; false if the caller has one already that no review covers, unless it must count again.
func (all *record) note(c Change, again bool) bool {
	i := slices.IndexFunc(all.Changes, func(one Change) bool { return one.Subject == c.Subject })
	if i >= 0 {
		open := all.Changes[i].Seq > all.Reviewed
		if open && !again {
			return false
		}
		if open { // refusals name the first one
			c.Key, c.At = all.Changes[i].Key, all.Changes[i].At
		}
		all.Changes = slices.Delete(all.Changes, i, i+1)
	}
	all.Seq++
	c.Seq = all.Seq
	all.Changes = append(all.Changes, c)
	if n := len(all.Changes) - most; n > 0 {
		all.Dropped = all.Changes[n-1].Seq
		all.Changes = slices.Delete(all.Changes, 0, n)
	}
	return true
}

// Review calls judge with all changes since an earlier review of a group, nil for none. If judge returns no error,
// they count as reviewed once the value that Review returns is in the group's history; later changes do not. A
// dry review stores nothing.
func (r *Records) Review(ctx context.Context, group store.Key, since *appcontext.Reviewed, dry bool, judge func(Changes) error) (*appcontext.Reviewed, error) {
	if since == nil {
		since = &appcontext.Reviewed{}
	}
	ctx = store.WithoutObservers(ctx)
	for range maxTries {
		app, err := r.read(ctx, appOf(group))
		if err != nil {
			return nil, err
		}
		own, err := r.read(ctx, group)
		if err != nil {
			return nil, err
		}
		var open Changes
		open.add(app, since.App)
		open.add(own, since.Group)
		if err := judge(open); err != nil {
			return nil, err
		}
		if dry {
			return nil, nil
		}
		if err = r.close(ctx, &app); err == nil {
			err = r.close(ctx, &own)
		}
		if lostRace(err) {
			continue
		}
		return &appcontext.Reviewed{App: app.Reviewed, Group: own.Reviewed}, err
	}
	return nil, busy(group)
}

// add adds the changes of a unit after an earlier review.
func (c *Changes) add(all record, since int64) {
	if since > all.Seq { // the record is that of another life of the documents
		since = 0
	}
	c.Forgotten = c.Forgotten || all.Dropped > since
	for _, one := range all.Changes {
		if one.Seq > since {
			c.All = append(c.All, one)
		}
	}
}

// Mine returns the change that a caller answers for: its own, that of a token that it made, or that of who made its token.
func (r *Records) Mine(c Changes, subject string) (Change, bool) {
	makers := r.makers(subject)
	i := slices.IndexFunc(c.All, func(one Change) bool {
		return one.Subject == subject || slices.Contains(one.Makers, subject) || slices.Contains(makers, one.Subject)
	})
	if i < 0 {
		return Change{}, false
	}
	return c.All[i], true
}

// String names the caller, the document and the time.
func (c Change) String() string {
	who := c.Subject
	if len(c.Makers) > 0 {
		who += " (a token of " + c.Makers[0] + ")"
	}
	return who + " changed " + string(c.Key) + " at " + c.At.Format(time.RFC3339)
}

// close marks all changes of a unit as reviewed. Without a record there are none.
func (r *Records) close(ctx context.Context, all *record) error {
	if all.Reviewed == all.Seq {
		return nil
	}
	all.Reviewed = all.Seq
	return r.write(ctx, *all)
}

// change updates the record of a unit with do, which returns false if nothing changes.
func (r *Records) change(ctx context.Context, unit store.Key, do func(*record) bool) error {
	for range maxTries {
		all, err := r.read(ctx, unit)
		if err != nil || !do(&all) {
			return err
		}
		if err := r.write(ctx, all); !lostRace(err) {
			return err
		}
	}
	return busy(unit)
}

func lostRace(err error) bool {
	return errs.Is(err, errs.Exists) || errs.Is(err, errs.Conflict) || errs.Is(err, errs.NotFound)
}

func busy(unit store.Key) error {
	return errs.New(errs.Unavailable, "many change or approve "+string(unit)+" at the same time; try again in a moment")
}

func (r *Records) read(ctx context.Context, unit store.Key) (record, error) {
	doc, err := r.DB.Get(ctx, keyOf(unit))
	if errs.Is(err, errs.NotFound) {
		return record{Unit: unit}, nil
	}
	if err != nil {
		return record{}, err
	}
	all, err := store.Decode[record](doc)
	all.rev = doc.Rev
	return all, err
}

func (r *Records) write(ctx context.Context, all record) error {
	body, err := json.Marshal(all)
	if err != nil {
		return err
	}
	w := store.Write{Key: keyOf(all.Unit), Body: body}
	if all.rev == 0 {
		_, err = r.DB.Create(ctx, w)
	} else {
		_, err = r.DB.Replace(ctx, w, all.rev)
	}
	return err
}

// keyOf returns the key of the record of a unit: no path of the API leads to it.
func keyOf(unit store.Key) store.Key {
	sum := sha256.Sum256([]byte(unit))
	return store.Key(records + "/" + hex.EncodeToString(sum[:16]))
}

// unitOf returns the unit that a document belongs to; empty if it is in no composite app.
func unitOf(k store.Key) store.Key {
	app := appOf(k)
	rest, below := strings.CutPrefix(string(k), string(app)+groups)
	if app == "" || !below {
		return app
	}
	group, _, _ := strings.Cut(rest, "/")
	return app + groups + store.Key(group)
}

// appOf returns the key of the version of a composite app that a document is, or is below; empty if there is none.
func appOf(k store.Key) store.Key {
	app, ok := v2.CompositeAppOf(string(k))
	if !ok {
		return ""
	}
	return store.Key(app.StoreKey())
}
