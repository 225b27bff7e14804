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
