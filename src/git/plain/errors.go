package plain

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// remoteError is what the server said in plain words; scrub it before it is shown.
type remoteError struct{ text string }

func (e *remoteError) Error() string { return e.text }

// malformed is for bytes that are not what the protocol says. Trying again may help
// where a proxy or a dying server cut them, so it is Unavailable.
func malformed(what string) error {
	return errs.E(errs.Unavailable, "read", "", errors.New(what+" is malformed"))
}

// fail classifies an error of a conversation and clears its text of credentials.
// Errors that are classified already keep their kind and gain the operation.
func (h *Host) fail(ctx context.Context, r git.Repo, op string, err error) error {
	if err == nil {
		return nil
	}
	if cause := ctx.Err(); cause != nil {
		return errs.E(errs.Unavailable, op, r.URL, cause)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // its text holds URLs that came from the server
	}
	if e, ok := errors.AsType[*errs.Error](err); ok {
		return h.classified(r, op, e)
	}
	if line, ok := errors.AsType[*pktline.ErrorLine](err); ok {
		err = &remoteError{text: line.Text}
	}
	if said, ok := errors.AsType[*remoteError](err); ok {
		return errs.E(kindOfWords(said.text), op, r.URL, errors.New(scrub(r, said.text)))
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the server ended the conversation early")
	}
	return errs.E(errs.Unavailable, op, r.URL, errors.New(scrub(r, err.Error())))
}

func (h *Host) classified(r git.Repo, op string, e *errs.Error) error {
	if e.Subject != "" {
		return e
	}
	if at, ok := errors.AsType[*git.PathError](e); ok {
		return &errs.Error{Kind: e.Kind, Op: op, Subject: r.URL, Err: at, After: e.After}
	}
	return &errs.Error{Kind: e.Kind, Op: op, Subject: r.URL, Err: errors.New(scrub(r, e.Err.Error())), After: e.After}
}

// kindOfWords reads a kind out of what servers say; the protocol has no codes.
func kindOfWords(text string) errs.Kind {
	text = strings.ToLower(text)
	holds := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(text, w) {
				return true
			}
		}
		return false
	}
	switch {
	case holds("not our ref", "not found", "does not exist", "does not appear", "no such", "not a valid object", "unadvertised object"):
		return errs.NotFound
	case holds("fsck", "hasdot", "fullpathname", "nullsha1", "badtree", "malformed"):
		return errs.Invalid
	case holds("exceeds maximum", "too large", "exceeds github", "larger than"):
		return errs.TooLarge
	case holds("authentication failed", "invalid credentials", "could not authenticate"):
		return errs.Unauthorized
	case holds("denied", "permission", "not allowed", "forbidden", "archived", "read-only", "read only"):
		return errs.Forbidden
	}
	return errs.Unavailable
}

// userinfo finds credentials that a server's text quotes from some URL.
var userinfo = regexp.MustCompile(`://[^/@\s]*@`)

// scrub makes a server's text fit to show: one line, bounded, without the
// repository's credentials in any form they are sent in.
func scrub(r git.Repo, text string) string {
	for _, secret := range []string{
		r.Token.Reveal(), url.QueryEscape(r.Token.Reveal()), url.PathEscape(r.Token.Reveal()),
		base64.StdEncoding.EncodeToString([]byte(r.User + ":" + r.Token.Reveal())), r.SSHKey.Reveal(),
	} {
		if secret != "" && r.Token+r.SSHKey != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	text = userinfo.ReplaceAllString(text, "://***@")
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 1000 {
		text = string(runes[:1000]) + " …"
	}
	return text
}

// admitPublic refuses addresses that no Git server has but that cloud machines
// answer with their credentials.
func admitPublic(a netip.Addr) error {
	a = a.Unmap()
	if a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() {
		return errs.E(errs.Forbidden, "dial", "", fmt.Errorf("address %s is not one that a Git server may have", a))
	}
	return nil
}
