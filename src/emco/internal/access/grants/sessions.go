package grants

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// sessions is the collection of the sessions of browsers: a document for each person, without its name.
const sessions = "sessions"

// Limits of writes of sessions.
const (
	sessionTries = 16 // while other processes change the sessions of the same person
	sweepPeriod  = time.Minute
	sweepAtOnce  = 64 // documents without sessions that are removed each minute
)

// session is what is stored of a session. Its cookie has the rest. Who reads it cannot make a cookie, not even with a
// data key, because it has no id. One without a digest was stored when the id was; it has ended.
type session struct {
	Digest string    `json:"digest"` // SHA-256 of the id
	Ends   time.Time `json:"ends"`
}

// sessionsRecord is the sessions of a person, oldest first.
type sessionsRecord struct {
	Sessions []session `json:"sessions"`
}

func sessionDigest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

func sessionsKey(subject string) store.Key {
	sum := sha256.Sum256([]byte(subject))
	return store.Key(sessions + "/" + hex.EncodeToString(sum[:16]))
}

// LiveSession reports whether a session of a person has not ended.
func (c *Cache) LiveSession(subject, id string) (bool, error) {
	s, err := c.snapshot()
	if err != nil {
		return false, err
	}
	digest := sessionDigest(id)
	return slices.ContainsFunc(s.sessions[sessionsKey(subject)], func(one session) bool { return one.Digest == digest && !c.lapsed(one) }), nil
}

// BeginSession stores a new session of a person. Of more than most sessions the oldest end.
func (c *Cache) BeginSession(ctx context.Context, subject, id string, ends time.Time, most int) error {
	return c.changeSessions(ctx, subject, func(all []session) []session {
		all = append(all, session{sessionDigest(id), ends})
		return all[max(len(all)-most, 0):]
	})
}

// EndSession ends a session of a person; all of them for an empty id.
func (c *Cache) EndSession(ctx context.Context, subject, id string) error {
	digest := sessionDigest(id)
	return c.changeSessions(ctx, subject, func(all []session) []session {
		return slices.DeleteFunc(all, func(one session) bool { return id == "" || one.Digest == digest })
	})
}

// changeSessions changes the sessions of a person, without those that have ended.
func (c *Cache) changeSessions(ctx context.Context, subject string, change func([]session) []session) error {
	key := sessionsKey(subject)
	for range sessionTries {
		record, rev, err := c.readSessions(ctx, key)
		if err != nil {
			return err
		}
		record.Sessions = change(slices.DeleteFunc(record.Sessions, c.lapsed))
		if err = c.writeSessions(ctx, key, record, rev); errs.Is(err, errs.Exists) || errs.Is(err, errs.Conflict) || errs.Is(err, errs.NotFound) {
			continue // another process was faster
		}
		if err != nil {
			return fmt.Errorf("store the sessions of %s: %w", subject, err)
		}
		return c.Refresh(ctx)
	}
	return errs.New(errs.Unavailable, "other processes change the sessions of "+subject+" all the time; try again in a moment")
}

func (c *Cache) lapsed(s session) bool { return s.Digest == "" || !c.now().Before(s.Ends) }

// readSessions returns the sessions of a document with its revision; 0 if there is no document.
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

// writeSessions replaces a document at the revision that readSessions returned. The next sweep removes one without
// sessions.
func (c *Cache) writeSessions(ctx context.Context, key store.Key, record sessionsRecord, rev int64) error {
	if rev == 0 && len(record.Sessions) == 0 {
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

// sweepSessions removes some documents whose sessions have all ended.
func (c *Cache) sweepSessions(ctx context.Context) error {
	s, err := c.snapshot()
	if err != nil {
		return err
	}
	left := sweepAtOnce
	for key, all := range s.sessions {
		if !c.allLapsed(all) {
			continue
		}
		err := c.db.Delete(ctx, key, func(_ context.Context, doc store.Doc) error {
			record, err := store.Decode[sessionsRecord](doc)
			if err == nil && !c.allLapsed(record.Sessions) {
				err = errs.New(errs.Conflict, "somebody signed in")
			}
			return err
		})
		if err != nil && !errs.Is(err, errs.NotFound) && !errs.Is(err, errs.Conflict) { // another process was faster
			return fmt.Errorf("remove sessions that have ended: %w", err)
		}
		if left--; left == 0 {
			break
		}
	}
	return nil
}

func (c *Cache) allLapsed(all []session) bool {
	return !slices.ContainsFunc(all, func(one session) bool { return !c.lapsed(one) })
}

// setSessionsLocked takes the sessions of a document in; nil for one that is gone.
func (c *Cache) setSessionsLocked(k store.Key, all []session) {
	if _, known := c.sessions[k]; !known && all == nil {
		return
	}
	if c.shared {
		c.sessions, c.shared = maps.Clone(c.sessions), false
	}
	if all == nil {
		delete(c.sessions, k)
		return
	}
	c.sessions[k] = all
}
