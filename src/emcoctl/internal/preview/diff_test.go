package preview_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/preview"
)

func TestDocumentPrintsAUnifiedDiff(t *testing.T) {
	t.Parallel()
	const server, local = `{"metadata":{"name":"p","description":"old"}}`, `{"metadata":{"name":"p","description":"new"}}`
	for _, c := range []struct {
		name          string
		server, local string
		colour        bool
		want          string
	}{
		{"equal documents", server, server, false, ""},
		{"a change", server, local, false, "--- projects/p (server)\n+++ projects/p (a.yaml)\n@@ -1,3 +1,3 @@\n metadata:\n   name: p\n-  description: old\n+  description: new\n"},
		{"a new document", "", `{"name":"p"}`, false, "--- /dev/null\n+++ projects/p (a.yaml)\n@@ -0,0 +1,1 @@\n+name: p\n"},
		{"colours", `{"a":"1"}`, `{"a":"2"}`, true, "\x1b[1m--- projects/p (server)\x1b[0m\n\x1b[1m+++ projects/p (a.yaml)\x1b[0m\n\x1b[36m@@ -1,1 +1,1 @@\x1b[0m\n\x1b[31m-a: \"1\"\x1b[0m\n\x1b[32m+a: \"2\"\x1b[0m\n"},
		{"control characters", `{"a":"1"}`, `{"a":"\u001b[2J"}`, false, ""},
	} {
		var out strings.Builder
		before := []byte(c.server)
		if c.server == "" {
			before = nil
		}
		if err := preview.Document(&out, "projects/p", "a.yaml", before, []byte(c.local), preview.Options{Colour: c.colour}); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if c.name == "control characters" {
			if strings.Contains(out.String(), "\x1b") {
				t.Errorf("%s reach the terminal: %q", c.name, out.String())
			}
		} else if got := out.String(); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}
