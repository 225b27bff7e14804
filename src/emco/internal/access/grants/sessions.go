package grants

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// sessions is the collection of the sessions of browsers: a document for each person, and one for each sign-in that an issuer has ended
// without naming the person. No name is in them.
const sessions = "sessions"

// Limits of writes of sessions.
const (
	sessionTries = 16 // while other processes change the sessions of the same person
	sweepPeriod  = time.Minute
	sweepAtOnce  = 64 // lapsed documents that a minute removes at most
)

const (
	signOutsKept = 25 * time.Hour   // longer than any session, and any token of an issuer, lives
	maxSignOuts  = 100              // in a document; the oldest goes
	issuerSkew   = 30 * time.Second // that clocks of an issuer may differ
)

// session is what is stored of a session. Its cookie has the rest. Who reads it cannot make a cookie, not even with a
// data key, because it has no id. One without a digest was stored when the id was; it has ended.
type session struct {
	Digest string    `json:"digest"` // SHA-256 of the id
	Ends   time.Time `json:"ends"`
	SignIn string    `json:"signIn,omitempty"` // digest of what the issuer calls the sign-in; empty: it gave no name
	Issued time.Time `json:"issued,omitzero"`  // when the issuer signed the person in
}

// signOut is a logout token that was taken.
type signOut struct {
	Token  string    `json:"token"`            // digest of its id: it is taken once
	SignIn string    `json:"signIn,omitempty"` // digest of what the issuer calls the sign-in that has ended; empty: all of the person
	Issued time.Time `json:"issued"`
	Until  time.Time `json:"until"` // from then on no process needs it
}

// ends reports whether the issuer has ended the sign-in of a session. A session whose sign-in has no name ends with any of the person.
func (o signOut) ends(s session, skew time.Duration) bool {
	if o.SignIn != "" && s.SignIn != "" {
		return o.SignIn == s.SignIn
	}
	return !s.Issued.After(o.Issued.Add(skew))
}

// sessionsRecord is the sessions of a person, oldest first, and what issuers have ended.
type sessionsRecord struct {
	Sessions []session `json:"sessions"`
	SignOuts []signOut `json:"signOuts,omitempty"`
}

// until returns when the document lapses: all that is in it has ended then.
func (r sessionsRecord) until() (last time.Time) {
	for _, s := range r.Sessions {
		if s.Digest != "" && s.Ends.After(last) {
			last = s.Ends
		}
	}
	for _, o := range r.SignOuts {
		if o.Until.After(last) {
			last = o.Until
		}
	}
	return last
}

// SignIn is a sign-in as an issuer knows it.
type SignIn struct {
	Issuer string
	ID     string    // what the issuer calls it (sid); empty: it gave no name
	Issued time.Time // when the issuer signed the person in
}

// digest returns the digest of the sign-in's name; empty if it has none.
func (s SignIn) digest() string {
	if s.ID == "" {
		return ""
	}
	return digestOf("sign-in", s.Issuer, s.ID)
}

// Logout is a logout token of an issuer: it ends one sign-in, or all of a person. Subject or SignIn.ID is set.
type Logout struct {
	SignIn         // that ends; Issued is of the token
	Token   string // id of the token
	Subject string // of the person; empty: the issuer names only the sign-in
}

// key returns the document that knows of the logout.
func (l Logout) key() store.Key {
	if l.Subject == "" {
		return signInKey(l.digest())
	}
	return sessionsKey(l.Subject)
}

// digestOf returns the SHA-256 of some texts.
func digestOf(texts ...string) string {
	text, _ := json.Marshal(texts) // quoted, so two lists of texts are never equal; strings always encode
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func sessionDigest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

func sessionsKey(subject string) store.Key {
	sum := sha256.Sum256([]byte(subject))
	return store.Key(sessions + "/" + hex.EncodeToString(sum[:16]))
}

// signInKey returns the document of a sign-in that an issuer may end without naming the person.
func signInKey(digest string) store.Key { return store.Key(sessions + "/" + digest[:32]) }

// LiveSession reports whether a session of a person has not ended, at any process.
func (c *Cache) LiveSession(ctx context.Context, subject, id string) (bool, error) {
	if readpoint.Of(ctx) == nil {
		ctx = readpoint.With(ctx)
	}
	record, _, err := c.readSessions(ctx, sessionsKey(subject))
	if err != nil {
		return false, err
	}
	digest := sessionDigest(id)
	i := slices.IndexFunc(record.Sessions, func(one session) bool { return one.Digest == digest && !c.lapsed(one) })
	if i < 0 {
		return false, nil
	}
	ended, err := c.endedByName(ctx, record.Sessions[i])
	return !ended, err
}

// endedByName reports whether an issuer has ended the sign-in of a session without naming the person.
func (c *Cache) endedByName(ctx context.Context, s session) (bool, error) {
	if s.SignIn == "" {
		return false, nil
	}
	record, _, err := c.readSessions(ctx, signInKey(s.SignIn))
	return slices.ContainsFunc(record.SignOuts, func(o signOut) bool { return o.SignIn == s.SignIn }), err
}

// BeginSession stores a new session of a person. Of more than most sessions the oldest end. It is Unauthorized if the issuer has
// ended the sign-in meanwhile.
func (c *Cache) BeginSession(ctx context.Context, subject, id string, of SignIn, ends time.Time, most int) error {
	next := session{Digest: sessionDigest(id), Ends: ends, SignIn: of.digest(), Issued: of.Issued}
	return c.changeSessions(ctx, sessionsKey(subject), "the sessions of "+subject, func(r *sessionsRecord) error {
		ended, err := c.endedByName(ctx, next)
		if err != nil {
			return err
		}
		if ended || slices.ContainsFunc(r.SignOuts, func(o signOut) bool { return o.ends(next, 0) }) {
			return errs.New(errs.Unauthorized, "the issuer "+of.Issuer+" has signed "+subject+" out since; begin the sign-in again")
		}
		if r.Sessions = append(r.Sessions, next); len(r.Sessions) > most {
			r.Sessions, err = c.withoutEnded(ctx, r.Sessions)
		}
		r.Sessions = r.Sessions[max(len(r.Sessions)-most, 0):]
		return err
	})
}

// withoutEnded returns the sessions whose sign-ins no issuer has ended.
func (c *Cache) withoutEnded(ctx context.Context, all []session) (left []session, err error) {
	for _, s := range all {
		ended, err := c.endedByName(ctx, s)
		if err != nil {
			return nil, err
		}
		if !ended {
			left = append(left, s)
		}
	}
	return left, nil
}

// EndSession ends a session of a person; all of them for an empty id.
func (c *Cache) EndSession(ctx context.Context, subject, id string) error {
	digest := sessionDigest(id)
	return c.changeSessions(ctx, sessionsKey(subject), "the sessions of "+subject, func(r *sessionsRecord) error {
		r.Sessions = slices.DeleteFunc(r.Sessions, func(one session) bool { return id == "" || one.Digest == digest })
		return nil
	})
}

// EndSignIns ends the sessions of sign-ins that an issuer has ended, at all processes. It is Unauthorized if the token was taken before.
// One write decides, so either nothing has happened or all.
func (c *Cache) EndSignIns(ctx context.Context, l Logout) error {
	out := signOut{Token: digestOf("logout", l.Issuer, l.Token), SignIn: l.digest(), Issued: l.Issued, Until: c.now().Add(signOutsKept)}
	what := "that the issuer " + l.Issuer + " has ended a sign-in of " + cmp.Or(l.Subject, "a person without a name")
	return c.changeSessions(ctx, l.key(), what, func(r *sessionsRecord) error {
		if slices.ContainsFunc(r.SignOuts, func(o signOut) bool { return o.Token == out.Token }) {
			return errs.New(errs.Unauthorized, "the logout token was taken before (jti)")
		}
		r.Sessions = slices.DeleteFunc(r.Sessions, func(one session) bool { return out.ends(one, issuerSkew) })
		r.SignOuts = append(r.SignOuts, out)
		r.SignOuts = r.SignOuts[max(len(r.SignOuts)-maxSignOuts, 0):]
		return nil
	})
}

// changeSessions changes a document of sessions, without what has ended.
func (c *Cache) changeSessions(ctx context.Context, key store.Key, what string, change func(*sessionsRecord) error) error {
	for range sessionTries {
		record, rev, err := c.readSessions(ctx, key)
		if err != nil {
			return err
		}
		record.Sessions = slices.DeleteFunc(record.Sessions, c.lapsed)
		record.SignOuts = slices.DeleteFunc(record.SignOuts, func(o signOut) bool { return !c.now().Before(o.Until) })
		if err := change(&record); err != nil {
			return err
		}
		err = c.writeSessions(ctx, key, record, rev)
		if errs.Is(err, errs.Exists) || errs.Is(err, errs.Conflict) || errs.Is(err, errs.NotFound) {
			continue // another process was faster
		}
		if err != nil {
			return fmt.Errorf("store %s: %w", what, err)
		}
		return nil
	}
	return errs.New(errs.Unavailable, "other processes change "+what+" all the time; try again in a moment")
}

func (c *Cache) lapsed(s session) bool { return s.Digest == "" || !c.now().Before(s.Ends) }

// readSessions returns a document of sessions with its revision; 0 if there is no document.
func (c *Cache) readSessions(ctx context.Context, key store.Key) (sessionsRecord, int64, error) {
	doc, err := c.db.Get(ctx, key)
	if errs.Is(err, errs.NotFound) {
		return sessionsRecord{}, 0, nil
	}
	if err != nil {
		return sessionsRecord{}, 0, fmt.Errorf("read sessions: %w", err)
	}
	record, err := store.Decode[sessionsRecord](doc)
	return record, doc.Rev, err
}

// writeSessions replaces a document at the revision that readSessions returned. The next sweep removes a lapsed one.
func (c *Cache) writeSessions(ctx context.Context, key store.Key, record sessionsRecord, rev int64) error {
	if rev == 0 && len(record.Sessions) == 0 && len(record.SignOuts) == 0 {
		return nil
	}
	body, err := json.Marshal(record)
	if err != nil {
		return err
	}
	w := store.Write{Key: key, Body: body}
	if rev == 0 {
		_, err = c.db.Create(ctx, w)
	} else {
		_, err = c.db.Replace(ctx, w, rev)
	}
	return err
}

// sweepSessions removes some lapsed documents.
func (c *Cache) sweepSessions(ctx context.Context) error {
	for _, key := range c.lapsedDocuments() {
		err := c.db.Delete(ctx, key, func(_ context.Context, doc store.Doc) error {
			record, err := store.Decode[sessionsRecord](doc)
			if err == nil && c.now().Before(record.until()) {
				err = errs.New(errs.Conflict, "the person signed in meanwhile")
			}
			return err
		})
		if err != nil && !errs.Is(err, errs.NotFound) && !errs.Is(err, errs.Conflict) { // another process was faster
			return fmt.Errorf("remove sessions that have ended: %w", err)
		}
	}
	return nil
}

// lapsedDocuments returns some lapsed documents.
func (c *Cache) lapsedDocuments() (keys []store.Key) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, until := range c.sessions {
		if now.Before(until) {
			continue
		}
		if keys = append(keys, key); len(keys) == sweepAtOnce {
			break
		}
	}
	return keys
}
