// Package grants keeps roles, bindings and API tokens of the document store in memory, so that decisions about requests
// do not read the store. It decides which tokens and sessions are valid. It stores the sessions of browsers and the
// bootstrap token. v2.APIToken computes when a token ends.
package grants

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Times of the snapshot: another process' change is seen after the period, and a decision never rests on
// what is older than the limit.
const (
	period   = time.Second
	oldLimit = 5 * time.Second
	// againPause is the time between two looks for unknown tokens: wrong ones cost ten reads a second at most.
	againPause = 100 * time.Millisecond
)

// The collections of documents that decide.
const (
	Roles    = "roles"
	Bindings = "role-bindings"
	Tokens   = "tokens"
)

// TokenRecord is what is stored of an API token.
type TokenRecord struct {
	v2.APIToken
	Digest string `json:"digest"`
}

// token is an API token with the uid of its document, which differs from those of others with the same name.
type token struct {
	TokenRecord
	uid string
}

// Cache holds the documents as they were at a moment. It reads them again each second while Run runs.
type Cache struct {
	db  *store.DB
	log *slog.Logger
	now func() time.Time

	current atomic.Pointer[snapshot]
	again   chan time.Time // has the end of the last LookAgain, while none runs

	mu        sync.Mutex
	mark      int64 // of the changes that were read; guarded by mu, as all below
	loaded    bool
	roles     map[store.Key][]authz.Rule
	bindings  map[store.Key]authz.Binding
	tokens    map[store.Key]token
	bootstrap bootstrapRecord
	sessions  map[store.Key]time.Time // when nothing in a document of sessions counts any more, for the sweep
}

// snapshot is the documents of a moment. It does not change.
type snapshot struct {
	grants    *authz.Grants
	tokens    map[string]token     // by digest
	ends      map[string]time.Time // of tokens, by uid
	makers    map[string]string    // of tokens, by subject
	bootstrap bootstrapRecord
	at        time.Time
}

// New returns a cache that has read nothing yet. The clock now is for tests; nil is time.Now.
func New(db *store.DB, log *slog.Logger, now func() time.Time) *Cache {
	if now == nil {
		now = time.Now
	}
	c := &Cache{db: db, log: log, now: now, again: make(chan time.Time, 1)}
	c.again <- time.Time{}
	return c
}

// Name is "grants": readiness and logs show it.
func (c *Cache) Name() string { return "grants" }

// Ready returns why no request can be decided.
func (c *Cache) Ready() error {
	_, err := c.Current()
	return err
}

// Run renews the snapshot each second, and removes what is left of sessions each minute, until ctx ends.
func (c *Cache) Run(ctx context.Context) error {
	tick := time.NewTicker(period)
	defer tick.Stop()
	failing, stuck, swept := false, false, time.Time{}
	for {
		err := c.Refresh(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			c.log.Warn("roles, bindings and tokens cannot be read; requests are refused in a moment", "err", err)
		}
		failing = err != nil
		if now := c.now(); !failing && now.Sub(swept) >= sweepPeriod {
			swept = now
			err := c.sweepSessions(ctx)
			if err != nil && !stuck && ctx.Err() == nil {
				c.log.Warn("sessions of browsers that have ended stay in the document store; the next attempt is in a minute", "err", err)
			}
			stuck = err != nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Current returns who may do what; Unavailable if they are too old to decide by.
func (c *Cache) Current() (*authz.Grants, error) {
	s, err := c.snapshot()
	if err != nil {
		return nil, err
	}
	return s.grants, nil
}

func (c *Cache) snapshot() (*snapshot, error) {
	s := c.current.Load()
	if s == nil || c.now().Sub(s.at) > oldLimit {
		return nil, errs.New(errs.Unavailable, "roles and bindings cannot be read, so nothing is decided; try again in a moment")
	}
	return s, nil
}

// Token implements authn.Tokens.
func (c *Cache) Token(digest string) (authn.Caller, bool, error) {
	s, err := c.snapshot()
	if err != nil {
		return authn.Caller{}, false, err
	}
	if s.bootstrap.matches(digest, c.now()) && !s.grants.HasAdmin(c.now()) {
		return authn.Caller{Subject: bootstrapSubject, Via: authn.ViaBootstrap, Until: s.bootstrap.Made.Add(bootstrapLife)}, true, nil
	}
	t, known := s.tokens[digest]
	if !known || !c.now().Before(t.Ends()) {
		return authn.Caller{}, false, nil
	}
	return authn.Caller{Subject: TokenSubject(t.Metadata.Name), UID: t.uid, Via: authn.ViaToken, Until: t.Ends()}, true, nil
}

// LookAgain implements authn.Tokens. Calls at the same time share a read that began after them.
func (c *Cache) LookAgain(ctx context.Context) error {
	asked := c.now()
	var last time.Time
	select {
	case last = <-c.again:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { c.again <- last }()
	if s := c.current.Load(); s != nil && s.at.After(asked) {
		return nil
	}
	select {
	case <-time.After(time.Until(last.Add(againPause))):
	case <-ctx.Done():
		return ctx.Err()
	}
	err := c.Refresh(ctx)
	last = time.Now()
	return err
}

// TokenSubject returns the subject of an API token.
func TokenSubject(name string) string { return "token:" + name }

// Lives reports whether the API token with a uid is valid: it was not revoked, and has not ended.
func (c *Cache) Lives(uid string) (bool, error) {
	s, err := c.snapshot()
	if err != nil {
		return false, err
	}
	return c.now().Before(s.ends[uid]), nil
}

// maxMakers bounds how many tokens that made each other are followed.
const maxMakers = 8

// Makers returns who made the API token that a subject is, then who made the token of that, and so on; nil for others, and for
// tokens that were revoked.
func (c *Cache) Makers(subject string) (out []string) {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	for len(out) < maxMakers {
		maker := s.makers[subject]
		if maker == "" || slices.Contains(out, maker) {
			break
		}
		out, subject = append(out, maker), maker
	}
	return out
}

// Refresh reads what has changed since the last call.
func (c *Cache) Refresh(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.now()
	ctx = readpoint.With(ctx) // of now: later requests share what this one reads
	changes, err := c.db.Changes(ctx, c.mark)
	if err != nil {
		return fmt.Errorf("read what has changed: %w", err)
	}
	changed := true
	if !c.loaded || changes.All {
		err = c.loadLocked(ctx)
	} else {
		changed, err = c.updateLocked(ctx, changes.Keys)
	}
	if err != nil {
		return err
	}
	c.mark, c.loaded = changes.Mark, true
	next := c.nextLocked(at, changed)
	if c.bootstrap.Digest != "" && next.grants.HasAdmin(at) {
		if err := c.EndBootstrap(ctx); err != nil {
			c.log.Warn("there is an administrator, but the bootstrap token could not be ended; the next attempt is in a second", "err", err)
		}
	}
	c.current.Store(next)
	return nil
}

// nextLocked returns the snapshot of now.
func (c *Cache) nextLocked(at time.Time, changed bool) *snapshot {
	if old := c.current.Load(); old != nil && !changed {
		same := *old
		same.at = at
		return &same
	}
	return c.buildLocked(at)
}

// relevant reports whether a document decides.
func relevant(k store.Key) bool {
	s := strings.Split(string(k), "/")
	switch len(s) {
	case 2:
		return s[0] == Roles || s[0] == Bindings || s[0] == Tokens || s[0] == sessions || k == bootstrapKey
	case 4:
		return (s[0] == "projects" || s[0] == "cluster-providers") && s[2] == Bindings
	}
	return false
}

func (c *Cache) loadLocked(ctx context.Context) error {
	c.roles, c.bindings, c.tokens = map[store.Key][]authz.Rule{}, map[store.Key]authz.Binding{}, map[store.Key]token{}
	c.sessions = map[store.Key]time.Time{}
	for _, l := range []struct {
		under store.Key
		depth int
	}{{Roles, 1}, {Bindings, 1}, {Tokens, 1}, {sessions, 1}, {"projects", 3}, {"cluster-providers", 3}} {
		for doc, err := range c.db.List(ctx, l.under, store.Query{Depth: l.depth}) {
			if err == nil && relevant(doc.Key) {
				err = c.takeLocked(doc)
			}
			if err != nil {
				return fmt.Errorf("read roles, bindings and tokens: %w", err)
			}
		}
	}
	return c.readLocked(ctx, bootstrapKey)
}

// updateLocked reads documents again; it reports whether one of them decides what callers may do.
func (c *Cache) updateLocked(ctx context.Context, keys []store.Key) (changed bool, err error) {
	for _, k := range keys {
		if !relevant(k) {
			continue
		}
		changed = changed || k.Collection() != sessions
		if err := c.readLocked(ctx, k); err != nil {
			return true, err
		}
	}
	return changed, nil
}

func (c *Cache) readLocked(ctx context.Context, k store.Key) error {
	doc, err := c.db.Get(ctx, k)
	if errs.Is(err, errs.NotFound) {
		delete(c.roles, k)
		delete(c.bindings, k)
		delete(c.tokens, k)
		delete(c.sessions, k)
		if k == bootstrapKey {
			c.bootstrap = bootstrapRecord{}
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", k, err)
	}
	return c.takeLocked(doc)
}

// takeLocked takes one document in. What cannot be decoded allows nothing.
func (c *Cache) takeLocked(doc store.Doc) (err error) {
	switch {
	case doc.Key == bootstrapKey:
		c.bootstrap, err = store.Decode[bootstrapRecord](doc)
	case strings.HasPrefix(string(doc.Key), Roles+"/"):
		var r v2.Role
		r, err = store.Decode[v2.Role](doc)
		c.roles[doc.Key] = Rules(r)
	case strings.HasPrefix(string(doc.Key), Tokens+"/"):
		var t TokenRecord
		t, err = store.Decode[TokenRecord](doc)
		c.tokens[doc.Key] = token{t, doc.UID}
	case doc.Key.Collection() == sessions:
		var all sessionsRecord
		all, err = store.Decode[sessionsRecord](doc)
		c.sessions[doc.Key] = all.until()
	default:
		var b v2.RoleBinding
		b, err = store.Decode[v2.RoleBinding](doc)
		c.bindings[doc.Key] = authz.Binding{
			Name: string(doc.Key), Role: b.Spec.Role, Subjects: b.Spec.Subjects, Place: string(doc.Parent), Deny: b.Spec.Deny, Expires: b.Ends(),
		}
	}
	return err
}

// Rules returns the rules of a role.
func Rules(r v2.Role) []authz.Rule {
	out := make([]authz.Rule, len(r.Spec.Rules))
	for i, rule := range r.Spec.Rules {
		out[i] = authz.Rule{Verbs: rule.Verbs, Types: rule.Types}
	}
	return out
}

func (c *Cache) buildLocked(at time.Time) *snapshot {
	roles := make(map[string][]authz.Rule, len(c.roles))
	for k, rules := range c.roles {
		roles[strings.TrimPrefix(string(k), Roles+"/")] = rules
	}
	bindings := make([]authz.Binding, 0, len(c.bindings)+len(c.tokens)+1)
	for _, b := range c.bindings {
		bindings = append(bindings, b)
	}
	tokens, ends, makers := make(map[string]token, len(c.tokens)), make(map[string]time.Time, len(c.tokens)), make(map[string]string, len(c.tokens))
	for k, t := range c.tokens {
		tokens[t.Digest], ends[t.uid], makers[TokenSubject(t.Metadata.Name)] = t, t.Ends(), t.Actor
		bindings = append(bindings, authz.Binding{
			Name: string(k), Role: t.Spec.Role, Subjects: []string{TokenSubject(t.Metadata.Name)}, Place: t.Spec.Place, Expires: t.Ends(),
		})
	}
	s := &snapshot{tokens: tokens, ends: ends, makers: makers, bootstrap: c.bootstrap, at: at}
	if s.grants = authz.New(roles, bindings); !s.grants.HasAdmin(at) {
		s.grants = authz.New(roles, append(bindings, authz.Binding{
			Name: "tokens/bootstrap", Role: authz.PlatformAdmin, Subjects: []string{bootstrapSubject},
		}))
	}
	return s
}

// Role returns the rules of a role: one that is built in, or a document.
func (c *Cache) Role(ctx context.Context, name string) ([]authz.Rule, error) {
	if rules, built := authz.BuiltIn()[name]; built {
		return rules, nil
	}
	doc, err := c.db.Get(ctx, store.Key(Roles+"/"+name))
	if err != nil {
		if errs.Is(err, errs.NotFound) {
			err = errs.New(errs.Invalid, "there is no role "+name+"; the roles that are built in are "+strings.Join(slices.Sorted(maps.Keys(authz.BuiltIn())), ", "))
		}
		return nil, err
	}
	r, err := store.Decode[v2.Role](doc)
	return Rules(r), err
}
