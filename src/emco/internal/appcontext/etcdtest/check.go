package etcdtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// T is a test of package testing or of package rapid.
type T interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Must fails the test on an error.
func Must(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WantKind fails the test unless err is of kind.
func WantKind(t T, err error, kind errs.Kind) {
	t.Helper()
	if !errs.Is(err, kind) {
		t.Fatalf("got error %v, want one of kind %q", err, kind)
	}
}

// WantFenced fails the test unless err means that the shard was lost.
func WantFenced(t T, err error) {
	t.Helper()
	WantKind(t, err, errs.Conflict)
	if !errors.Is(err, etcdkv.ErrFenced) {
		t.Fatalf("got %v, want it fenced", err)
	}
}

// Receive returns what comes from c, or fails the test after a minute.
func Receive[V any](t testing.TB, c <-chan V, what string) V {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("%s did not come", what)
		panic("not reached")
	}
}

// KeysBelow returns the keys below part, without the client's prefix.
func KeysBelow(t T, kv *etcdkv.Client, part string) []string {
	t.Helper()
	var keys []string
	for record, err := range kv.List(t.Context(), etcdkv.Scan{Prefix: kv.Key(part), KeysOnly: true}) {
		Must(t, err)
		keys = append(keys, strings.TrimPrefix(string(record.Key), kv.Key()))
	}
	return keys
}
