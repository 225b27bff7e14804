package grants

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/apitoken"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// The bootstrap token lets the first administrator in. No subject of a binding or of a provider is called
// like its caller. The name tokens/bootstrap of its binding can be a real token's too; then both have their
// own digests.
const (
	bootstrapKey     store.Key = "system/bootstrap"
	bootstrapSubject           = "bootstrap"
	bootstrapLife              = 24 * time.Hour
)

// bootstrapRecord is what is stored of the bootstrap token.
type bootstrapRecord struct {
	Digest string    `json:"digest,omitempty"` // empty: no token is valid
	Ended  string    `json:"ended,omitempty"`  // digest of the token that the first administrator ended
	Made   time.Time `json:"made"`
}

func (b bootstrapRecord) matches(digest string, now time.Time) bool {
	return b.Digest != "" && now.Before(b.Made.Add(bootstrapLife)) && subtle.ConstantTimeCompare([]byte(b.Digest), []byte(digest)) == 1
}

// Bootstrap lets the first administrator in: while no subject is bound to platform-admin everywhere, the
// token given, or a new one if it is empty, is valid for 24 hours from now. It returns a new token, which must
// be shown once; empty if there is an administrator, or another process has made a token that is still valid.
func (c *Cache) Bootstrap(ctx context.Context, given string) (made string, err error) {
	if err := c.Refresh(ctx); err != nil {
		return "", err
	}
	s, err := c.snapshot()
	if err != nil || s.grants.HasAdmin(c.now()) {
		return "", err
	}
	token := given
	if token == "" {
		if s.bootstrap.Digest != "" && c.now().Before(s.bootstrap.Made.Add(bootstrapLife)) {
			return "", nil
		}
		token = apitoken.New()
	} else if digest := apitoken.Digest(token); s.bootstrap.Digest == digest || s.bootstrap.Ended == digest {
		return "", nil // also after its end: the same token is not given a second day
	}
	body, err := json.Marshal(bootstrapRecord{Digest: apitoken.Digest(token), Made: c.now().UTC()})
	if err != nil {
		return "", err
	}
	w := store.Write{Key: bootstrapKey, Body: body}
	_, err = c.db.Create(ctx, w)
	if errs.Is(err, errs.Exists) {
		if given == "" && s.bootstrap.Made.IsZero() {
			return "", c.Refresh(ctx) // another process was faster
		}
		_, err = c.db.Replace(ctx, w, 0)
	}
	if err != nil {
		return "", fmt.Errorf("store the bootstrap token: %w", err)
	}
	if given != "" {
		token = ""
	}
	return token, c.Refresh(ctx)
}

// EndBootstrap ends the bootstrap token for good: there is an administrator, or one is about to be removed.
// Without it the token would be valid again after the last administrator, until its 24 hours are over.
func (c *Cache) EndBootstrap(ctx context.Context) error {
	doc, err := c.db.Get(ctx, bootstrapKey)
	if errs.Is(err, errs.NotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the bootstrap token: %w", err)
	}
	record, err := store.Decode[bootstrapRecord](doc)
	if err != nil || record.Digest == "" {
		return err
	}
	body, err := json.Marshal(bootstrapRecord{Ended: record.Digest, Made: record.Made})
	if err != nil {
		return err
	}
	if _, err := c.db.Replace(ctx, store.Write{Key: bootstrapKey, Body: body}, doc.Rev); err != nil {
		return fmt.Errorf("end the bootstrap token: %w", err)
	}
	return nil
}
