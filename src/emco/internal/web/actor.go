package web

import (
	"context"
	"net/http"
	"strings"
	"unicode"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

const (
	// Anonymous is the actor of a request that names none.
	Anonymous = "anonymous"
	maxActor  = 128 // bytes
)

// HeaderIdempotencyKey is the header that marks repeated requests as one and
// the same.
const HeaderIdempotencyKey = "Idempotency-Key"

// maxKey is the length of the longest Idempotency-Key.
const maxKey = 128

type actorKey struct{}

// Identify records the actor of each request from the header. It trusts the header: a gateway
// that authenticates must set it, and remove it from what clients send. Without the
// header, or if no header is named, the actor is Anonymous.
func Identify(header string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := actor(r.Header.Get(header)); header != "" && name != "" {
			r = r.WithContext(WithActor(r.Context(), name))
		}
		next.ServeHTTP(w, r)
	})
}

// WithActor returns a context of a request of an actor, whose name is harmless.
func WithActor(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, actorKey{}, name)
}

// Actor returns whose request ctx belongs to: a name that is safe to store and to show.
func Actor(ctx context.Context) string {
	if name, ok := ctx.Value(actorKey{}).(string); ok {
		return name
	}
	return Anonymous
}

// actor makes a header's value harmless: printable, and of bounded length.
func actor(value string) string {
	name := strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.TrimSpace(value))
	if len(name) > maxActor {
		name = strings.ToValidUTF8(name[:maxActor], "")
	}
	return name
}

// IdempotencyKey returns the request's Idempotency-Key; empty if it has none. Invalid if
// it is not 1 to 128 printable characters of ASCII, or is given twice.
func IdempotencyKey(r *http.Request) (string, error) {
	values, given := r.Header[HeaderIdempotencyKey]
	if !given {
		return "", nil
	}
	key := values[0]
	bad := func(c rune) bool { return c < ' ' || c > '~' }
	if len(values) > 1 || key == "" || len(key) > maxKey || strings.ContainsFunc(key, bad) {
		return "", errs.New(errs.Invalid, "Invalid header Idempotency-Key: give one value of 1 to 128 printable ASCII characters")
	}
	return key, nil
}
