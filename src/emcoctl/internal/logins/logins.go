// Package logins keeps people's sign-ins at servers in files that only they can read, and renews their tokens.
package logins

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/config"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/signin"
)

// Store is a folder with a file for each sign-in.
type Store struct{ Dir string }

// Login is a sign-in at a server.
type Login struct {
	Server string // its address
	User   string // the name that a context gives to the sign-in; empty without one
	Issuer signin.Issuer
	signin.Grant
}

// record is a Login as its file holds it.
type record struct {
	Server  string        `json:"server"`
	User    string        `json:"user,omitempty"`
	Issuer  signin.Issuer `json:"issuer"`
	Token   string        `json:"token"`
	Refresh string        `json:"refreshToken,omitempty"`
	Ends    time.Time     `json:"ends"`
}

// Times of renewals.
const (
	margin   = time.Minute // before its end, a token is renewed
	lockWait = time.Minute // for another emcoctl that renews the same token
)

// maxFile bounds a file, in bytes.
const maxFile = 1 << 20

func (s Store) file(server, user string) string {
	name := sha256.Sum256([]byte(server + "\n" + user))
	return filepath.Join(s.Dir, hex.EncodeToString(name[:8])+".json")
}

// Save keeps a sign-in in place of a former one.
func (s Store) Save(ctx context.Context, l Login) error {
	unlock, err := s.lock(ctx, l.Server, l.User)
	if err != nil {
		return err
	}
	defer unlock()
	return s.write(l)
}

// Remove forgets a sign-in, also one whose file cannot be used, and returns what it was; NotFound if there is
// none.
func (s Store) Remove(ctx context.Context, server, user string) (Login, error) {
	if _, err := s.read(server, user); errs.Is(err, errs.NotFound) {
		return Login{}, err
	}
	unlock, err := s.lock(ctx, server, user)
	if err != nil {
		return Login{}, err
	}
	defer unlock()
	l, err := s.read(server, user)
	if errs.Is(err, errs.NotFound) {
		return Login{}, err
	}
	if err := os.Remove(s.file(server, user)); err != nil {
		return Login{}, errs.E(errs.Invalid, "forget the sign-in", s.Dir, err)
	}
	return l, nil
}

// Token returns a token for a server, which it renews when it is about to end. It is empty without a
// sign-in there. The error is Unauthorized if the sign-in has ended.
func (s Store) Token(ctx context.Context, server, user string) (client.Token, error) {
	l, err := s.read(server, user)
	switch {
	case errs.Is(err, errs.NotFound):
		return "", nil
	case err != nil:
		return "", err
	case time.Until(l.Ends) > margin:
		return l.Grant.Token, nil
	}
	renewed, err := s.renew(ctx, server, user)
	if err != nil && time.Until(l.Ends) > 0 && ctx.Err() == nil {
		return l.Grant.Token, nil // it is good for a moment; the next request tries again
	}
	return renewed.Grant.Token, err
}

// renew exchanges the token of a sign-in for a new one, unless another emcoctl has just done so.
func (s Store) renew(ctx context.Context, server, user string) (Login, error) {
	unlock, err := s.lock(ctx, server, user)
	if err != nil {
		return Login{}, err
	}
	defer unlock()
	l, err := s.read(server, user)
	switch {
	case errs.Is(err, errs.NotFound):
		return Login{}, nil // a logout was faster
	case err != nil || time.Until(l.Ends) > margin:
		return l, err
	case l.Refresh == "":
		return l, errs.New(errs.Unauthorized, "the sign-in at "+server+" ended at "+l.Ends.UTC().Format(time.RFC3339))
	}
	provider, err := signin.Discover(ctx, l.Issuer)
	if err != nil {
		return l, err
	}
	if l.Grant, err = provider.Refresh(ctx, l.Refresh); err != nil {
		return l, err
	}
	return l, s.write(l)
}

// lock waits until no other emcoctl changes a sign-in.
func (s Store) lock(ctx context.Context, server, user string) (unlock func(), err error) {
	if s.Dir == "" {
		return nil, errs.New(errs.Invalid, "there is no home directory for sign-ins; name a file with $EMCOCTL_CONFIG")
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, errs.E(errs.Invalid, "keep the sign-in", s.Dir, err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	type held struct {
		unlock func()
		err    error
	}
	locked := make(chan held)
	go func() {
		unlock, err := lockedfile.MutexAt(s.file(server, user) + ".lock").Lock()
		select {
		case locked <- held{unlock, err}:
		case <-ctx.Done():
			if err == nil {
				unlock()
			}
		}
	}()
	select {
	case l := <-locked:
		if l.err != nil {
			return nil, errs.E(errs.Invalid, "lock the sign-in", s.Dir, l.err)
		}
		return l.unlock, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("another emcoctl renews the sign-in at %s and does not end: %w", server, context.Cause(ctx))
	}
}

// OtherServer returns a server, other than one, at which the user has a sign-in with an audience; empty if there is none. Files that cannot be
// used are left out.
func (s Store) OtherServer(server, audience string) (string, error) {
	if s.Dir == "" {
		return "", nil
	}
	files, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", errs.E(errs.Invalid, "read the sign-ins", s.Dir, err)
	}
	for _, f := range files {
		if filepath.Ext(f.Name()) != ".json" {
			continue
		}
		if r, err := load(filepath.Join(s.Dir, f.Name())); err == nil && r.Server != server && r.Issuer.Audience == audience {
			return r.Server, nil
		}
	}
	return "", nil
}

// read returns a sign-in; NotFound if there is none.
func (s Store) read(server, user string) (Login, error) {
	file := s.file(server, user)
	if s.Dir == "" {
		return Login{}, nobody(server)
	}
	r, err := load(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Login{}, nobody(server)
	case err != nil:
		return Login{}, err
	case r.Server != server || r.User != user:
		return Login{}, errs.E(errs.Malformed, "read the sign-in", file, errors.New("it is no sign-in at "+server+"; remove it, and sign in again"))
	}
	return Login{r.Server, r.User, r.Issuer, signin.Grant{Token: client.Token(r.Token), Refresh: client.Token(r.Refresh), Ends: r.Ends}}, nil
}

func nobody(server string) error {
	return errs.New(errs.NotFound, "you are not signed in at "+server)
}

// load reads a file that only its owner may read.
func load(file string) (r record, err error) {
	f, err := os.Open(file)
	if err != nil {
		return r, errs.E(errs.Invalid, "read the sign-in", file, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return r, errs.E(errs.Invalid, "read the sign-in", file, err)
	}
	if info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return r, errs.E(errs.Invalid, "read the sign-in", file, errors.New("others may read it; sign in again with: emcoctl login"))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return r, errs.E(errs.Invalid, "read the sign-in", file, err)
	case len(text) > maxFile:
		return r, errs.E(errs.TooLarge, "read the sign-in", file, fmt.Errorf("above %d bytes", maxFile))
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, errs.E(errs.Malformed, "read the sign-in", file, errors.New("it is no sign-in; remove it, and sign in again"))
	}
	return r, nil
}

func (s Store) write(l Login) error {
	text, err := json.Marshal(record{l.Server, l.User, l.Issuer, l.Grant.Token.Reveal(), l.Refresh.Reveal(), l.Ends.UTC()})
	if err != nil {
		return err
	}
	if err := config.WritePrivate(s.file(l.Server, l.User), text); err != nil {
		return errs.E(errs.Invalid, "keep the sign-in", s.Dir, err)
	}
	return nil
}
