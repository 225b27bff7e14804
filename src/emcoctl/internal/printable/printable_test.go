package printable_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
)

func TestTextAndLine(t *testing.T) {
	t.Parallel()
	const in = "a\x1b[31mred\x07\n\tb\u009b\r  c"
	if got, want := printable.Text(in), "a?[31mred?\n\tb??  c"; got != want {
		t.Errorf("Text = %q, want %q", got, want)
	}
	if got, want := printable.Line(in), "a?[31mred? b? c"; got != want {
		t.Errorf("Line = %q, want %q", got, want)
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 checks", 1: "1 check", 2: "2 checks"} {
		if got := printable.Count(n, "check"); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}
