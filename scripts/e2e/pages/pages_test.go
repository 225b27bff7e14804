package pages_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/e2e/pages"
)

const page = "# Title\n\nText.\n\n" +
	"<!-- yours -->\n```sh\nexport NAME=you\n```\n\n" +
	"## First\n\n```sh\ncat >greeting <<EOF\nhello $NAME\nEOF\nsleep 1000 &\n```\n\n" +
	"```sh\ncat greeting\necho 2026-11-22 10:00:00Z took 3.2 s, commit 0123456789ab\n```\n\n" +
	"```text\nhello …\n2025-01-01 00:00:00Z   took 1 s, commit c0ffeec0ffee\n```\n\n" +
	"## Second\n\n<!-- exit 3 -->\n```sh\nexit 3\n```\n\n" +
	"<!-- not run: it never ends -->\n```sh\nsleep infinity\n```\n\n" +
	"### Third\n\n```sh\nfalse\n```\n"

func TestAPageRunsInOneShell(t *testing.T) {
	t.Parallel()
	p, err := pages.Parse("page.md", page)
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"NAME=reader"}
	out, err := p.Run(t.Context(), pages.Options{Dir: t.TempDir(), Env: env, Skip: []string{"Third"}})
	if err != nil || !strings.Contains(out, "hello reader") {
		t.Errorf("the run: %v\n%s", err, out)
	}
	if _, err := p.Run(t.Context(), pages.Options{Dir: t.TempDir(), Env: env}); err == nil || !strings.Contains(err.Error(), "page.md:44:") || !strings.Contains(err.Error(), "false") {
		t.Errorf("a command that fails: %v, want an error that names line 44", err)
	}
	if _, err := p.Run(t.Context(), pages.Options{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "NAME") {
		t.Errorf("without NAME: %v, want an error that names it", err)
	}
}

func TestAPageMustTellTheTruth(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"other output":        "```sh\necho one; echo two\n```\n```text\ntwo\none\n```\n",
		"success, not exit 1": "<!-- exit 1 -->\n```sh\ntrue\n```\n",
		"exit 1 in a pipe":    "```sh\nfalse | true\n```\n",
		"ends the shell":      "```sh\nexit 0\n```\n\n```sh\ntrue\n```\n",
		"nothing to run":      "# Title\n",
	} {
		p, err := pages.Parse("page.md", text)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := p.Run(t.Context(), pages.Options{Dir: t.TempDir()}); err == nil {
			t.Errorf("%s: no error\n%s", name, out)
		}
	}
	for name, text := range map[string]string{
		"no language":       "```\ntrue\n```\n",
		"a note for text":   "<!-- exit 1 -->\n\nText.\n",
		"a note for output": "<!-- yours -->\n```text\na\n```\n",
		"no end":            "```sh\ntrue\n",
	} {
		if p, err := pages.Parse("page.md", text); err == nil {
			t.Errorf("%s: Parse = %+v, want an error", name, p)
		}
	}
}
