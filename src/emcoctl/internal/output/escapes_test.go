package output_test

import (
	"bytes"
	"testing"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// What a server or a tenant wrote cannot steer the terminal: no escape sequence, no line of its own.
func TestH26EscapesReachNoTerminal(t *testing.T) {
	t.Parallel()
	const hostile = "\x1b]0;owned\x07\x1b[2Jok\r\nname  forged\u009b31m\u202e"
	var out bytes.Buffer
	output.Fields(&out, [2]string{"name", hostile})
	table := output.NewTable(&out)
	table.Row("NAME", "WHY")
	table.Row("web", hostile)
	table.Flush()
	for _, b := range []string{"\x1b", "\x07", "\r", "\u009b", "\nname  forged"} {
		if bytes.Contains(out.Bytes(), []byte(b)) {
			t.Errorf("the output has %q: %q", b, out.String())
		}
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 3 {
		t.Errorf("%d lines, want 3: %q", n, out.String())
	}
	if bytes.ContainsRune(out.Bytes(), '\u202e') {
		t.Errorf("the output turns the direction of text: %q", out.String())
	}
}
