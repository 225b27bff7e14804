package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, codeUsage, "seed|run|demo|version"},
		{[]string{"help"}, codeOK, "-version"},
		{[]string{"help"}, codeOK, "Exit codes"},
		{[]string{"run", "-h"}, codeOK, "-fetch.every"},
		{[]string{"walk"}, codeUsage, "none of seed, run and demo"},
		{[]string{"run"}, codeUsage, "-git.url"},
		{[]string{"run", "-git.url", "http://127.0.0.1:1/r.git", "-do", "now all dance"}, codeUsage, "order"},
		{[]string{"run", "-git.url", "http://127.0.0.1:1/r.git", "-clusters", "0"}, codeUsage, "at least 1"},
		{[]string{"run", "-git.url", "http://127.0.0.1:1/r.git", "-names", "alpha,,bravo"}, codeUsage, "empty name"},
		{[]string{"seed", "-git.url", "http://127.0.0.1:1/r.git", "-names", "alpha,alpha"}, codeUsage, "twice"},
		{[]string{"run", "left", "over"}, codeUsage, "not a flag"},
		{[]string{"seed"}, codeUsage, "-git.url"},
		{[]string{"seed", "-git.url", "http://127.0.0.1:1/r.git", "-api", "http://127.0.0.1:1"}, codeFailed, "cluster-providers"},
	} {
		var out, errOut bytes.Buffer
		if code := command(t.Context(), c.args, &out, &errOut); code != c.code || !strings.Contains(errOut.String(), c.says) {
			t.Errorf("simfleet %v: exit code %d and %q, want %d and %q", c.args, code, errOut.String(), c.code, c.says)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"version", "-version", "--version"} {
		var out, errOut bytes.Buffer
		if code := command(t.Context(), []string{arg}, &out, &errOut); code != codeOK || out.String() != "simfleet "+version.Read().String()+"\n" || errOut.Len() > 0 {
			t.Errorf("%s: exit code %d, %q and %q", arg, code, out.String(), errOut.String())
		}
	}
}

// A run ends when all clusters are settled, and prints a summary.
func TestARunEndsWhenAllIsSettled(t *testing.T) {
	t.Parallel()
	srv, err := gittest.Serve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	bare, err := srv.Seed(t.Context(), "fleet", "main")
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	args := []string{"run", "-git.url", srv.URL("fleet"), "-clusters", "5", "-interval", "100ms", "-settled", "1s", "-for", "1m", "-json"}
	if code := command(t.Context(), args, &out, &errOut); code != codeOK || !strings.Contains(out.String(), `"current":5`) {
		t.Errorf("exit code %d, %s%s, want 0 and five that are current", code, out.String(), errOut.String())
	}
	out.Reset()
	args = []string{"run", "-git.url", srv.URL("fleet"), "-names", "alpha,bravo", "-interval", "100ms", "-settled", "1s", "-for", "1m", "-json"}
	if code := command(t.Context(), args, &out, &errOut); code != codeOK || !strings.Contains(out.String(), `"current":2`) {
		t.Errorf("exit code %d, %s%s, want 0 and the two that are named", code, out.String(), errOut.String())
	}
	for _, name := range []string{"alpha", "bravo"} {
		if _, err := bare.Git(t.Context(), "", "rev-parse", "--verify", "refs/heads/status/sim+"+name); err != nil {
			t.Errorf("%s did not report: %v", name, err)
		}
	}
	args = []string{"run", "-git.url", srv.URL("nothing"), "-clusters", "2", "-interval", "100ms", "-for", "1s"}
	if code := command(t.Context(), args, &out, &errOut); code != codeBehind {
		t.Errorf("exit code %d although nothing can be fetched, want %d", code, codeBehind)
	}
}
