package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestManPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := run([]string{dir, "v1.2.3", "2026-11-22"}); err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string][]string{
		"emcoctl.1":        {`"emcoctl v1.2.3"`, "Nov 2026", `emcoctl-apply(1)`, `--server`},
		"emcoctl-apply.1":  {`--filename`, "SEE ALSO"},
		"emcoctl-status.1": {"GROUP"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s lacks %s:\n%s", name, part, text)
			}
		}
	}
	if err := run([]string{dir}); err == nil {
		t.Error("no error without a version")
	}
}
