package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

func TestTheActorIsWhatTheGatewaySays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ setting, header, value, want string }{
		{"X-Forwarded-User", "X-Forwarded-User", " ada@example.org ", "ada@example.org"},
		{"X-Forwarded-User", "X-Forwarded-User", "Jürgen", "Jürgen"},
		{"X-Forwarded-User", "X-Forwarded-User", "", web.Anonymous},
		{"X-Forwarded-User", "X-Other-User", "ada", web.Anonymous},
		{"", "X-Forwarded-User", "ada", web.Anonymous},
		{"X-Forwarded-User", "X-Forwarded-User", "a\x1b[2Jb\xff\u202e", "a?[2Jb??"},
		{"X-Forwarded-User", "X-Forwarded-User", strings.Repeat("ü", 100), strings.Repeat("ü", 64)},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header[tt.header] = []string{tt.value}
		var got string
		web.Identify(tt.setting, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = web.Actor(r.Context()) })).
			ServeHTTP(httptest.NewRecorder(), r)
		if got != tt.want || !utf8.ValidString(got) {
			t.Errorf("%s: %q with the setting %q: got %q, want %q", tt.header, tt.value, tt.setting, got, tt.want)
		}
	}
}

func TestIdempotencyKeysAreChecked(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("k", 128)
	for _, tt := range []struct {
		values []string
		want   string
		ok     bool
	}{
		{nil, "", true},
		{[]string{`"8e03978e-40d5-43dd-bc93-6894a57f9324"`}, `"8e03978e-40d5-43dd-bc93-6894a57f9324"`, true},
		{[]string{longest}, longest, true},
		{[]string{longest + "k"}, "", false},
		{[]string{""}, "", false},
		{[]string{"a\tb"}, "", false},
		{[]string{"ü"}, "", false},
		{[]string{"a", "a"}, "", false},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		if tt.values != nil {
			r.Header[web.HeaderIdempotencyKey] = tt.values
		}
		got, err := web.IdempotencyKey(r)
		if got != tt.want || (err == nil) != tt.ok || !tt.ok && !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: got %q, %v; want %q, %v", fmt.Sprintf("%.40q", tt.values), got, err, tt.want, tt.ok)
		}
	}
}
