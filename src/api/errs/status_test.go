package errs_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

func TestStatusAndBack(t *testing.T) {
	t.Parallel()
	for k := errs.Internal; k <= errs.Unavailable; k++ {
		want := k
		if k == errs.Exists {
			want = errs.Conflict // both are 409, and 409 alone does not distinguish them
		}
		if got := errs.FromStatus(errs.Status(k)); got != want {
			t.Errorf("FromStatus(Status(%v)) = %v, want %v", k, got, want)
		}
	}
}

func TestFromStatusOfOthers(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]errs.Kind{
		300: errs.NotAcceptable, 405: errs.Invalid, 410: errs.NotFound, 412: errs.Conflict,
		418: errs.Invalid, 501: errs.Internal, 502: errs.Unavailable, 504: errs.Unavailable,
	} {
		if got := errs.FromStatus(status); got != want {
			t.Errorf("FromStatus(%d) = %v, want %v", status, got, want)
		}
	}
	if got := errs.Status(errs.Kind(200)); got != 500 {
		t.Errorf("Status of an unknown kind = %d, want 500", got)
	}
}
