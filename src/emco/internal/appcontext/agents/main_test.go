package agents

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err error, kind errs.Kind) {
	t.Helper()
	if !errs.Is(err, kind) {
		t.Fatalf("got error %v, want one of kind %q", err, kind)
	}
}
