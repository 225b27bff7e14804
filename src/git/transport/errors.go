package transport

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

const (
	defaultWait = 60 * time.Second // when a server throttles without a time to come back
	maxText     = 1000             // characters of a server's message
)

// RemoteError is a message of a server. It may hold secrets until Fail redacts it.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return e.Text }

// Malformed returns the error of bytes that break a protocol. It is Unavailable, since a proxy or a
// dying server may have cut them.
func Malformed(what string) error {
	return errs.E(errs.Unavailable, "read", "", errors.New(what+" is malformed"))
}

// Fail classifies an error of an exchange with a server, and redacts the credentials of r and more.
// A classified error keeps its kind and its path, and gains operation and subject if it has none;
// the kind of a RemoteError follows from its words; all others are Unavailable. The error of an ended context replaces any other. A nil err stays
// nil.
func Fail(ctx context.Context, r git.Repo, op string, err error, more ...git.Secret) error {
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
		return classified(r, op, e, more)
	}
	if said, ok := errors.AsType[*RemoteError](err); ok {
		return errs.E(KindOfMessage(said.Text), op, r.URL, errors.New(Redact(r, said.Text, more...)))
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the server ended the conversation early")
	}
	return errs.E(errs.Unavailable, op, r.URL, errors.New(Redact(r, err.Error(), more...)))
}

func classified(r git.Repo, op string, e *errs.Error, more []git.Secret) error {
	if e.Subject != "" {
		return e
	}
	if at, ok := errors.AsType[*git.PathError](e); ok {
		return &errs.Error{Kind: e.Kind, Op: op, Subject: r.URL, Err: at, After: e.After}
	}
	return &errs.Error{Kind: e.Kind, Op: op, Subject: r.URL, Err: errors.New(Redact(r, e.Err.Error(), more...)), After: e.After}
}

// userinfo finds credentials that a server's text quotes from some URL.
var userinfo = regexp.MustCompile(`://[^/@\s]*@`)

// leastRedacted is the length from which a credential, or an encoding of it, is hidden. A shorter one protects nothing,
// because it is guessed at once, and it occurs in any text: what remains would tell the reader nothing.
const leastRedacted = 4

// Redact makes a server's text fit to show: one line, bounded, without the credentials of r and
// more in any of their encodings, unless these are shorter than four characters.
func Redact(r git.Repo, text string, more ...git.Secret) string {
	for _, s := range append([]git.Secret{r.Token, r.SSHKey, r.ClientKey, r.App.Key}, more...) {
		for _, secret := range forms(r.User, s.Reveal()) {
			if len(secret) >= leastRedacted {
				text = strings.ReplaceAll(text, secret, "***")
			}
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
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText]) + " …"
	}
	return text
}

// forms returns the encodings of a secret on the wire; none of an empty one.
func forms(user, secret string) []string {
	if secret == "" {
		return nil
	}
	return []string{secret, url.QueryEscape(secret), url.PathEscape(secret), base64.StdEncoding.EncodeToString([]byte(user + ":" + secret))}
}

// RetryAfter reads the header of that name, seconds or a date, and reports whether it was set; a
// minute if not. No wait is longer than an hour.
func RetryAfter(header string) (time.Duration, bool) {
	if header == "" {
		return defaultWait, false
	}
	if n, err := strconv.Atoi(header); err == nil && n >= 0 {
		return min(time.Duration(min(n, 3600))*time.Second, time.Hour), true
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(time.Until(at), 0), time.Hour), true
	}
	return defaultWait, true
}
