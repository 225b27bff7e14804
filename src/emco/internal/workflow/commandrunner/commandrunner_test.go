package commandrunner_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow/commandrunner"
)

var scripts = map[string]string{
	"sound": "#!/bin/sh\nread -r job\necho \"$job $# $(/usr/bin/env | grep -v -e '^PWD=' -e '^SHLVL=' -e '^_=' | wc -l)\"\n",
	"later": "#!/bin/sh\necho busy >&2\nexit 75\n",
	"fails": "#!/bin/sh\necho no disk >&2\nexit 3\n",
	"saves": "#!/bin/sh\nset -e\nf=$(/usr/bin/mktemp)\necho backup >$f\n/bin/cat $f\n/bin/rm $f\n",
	"hangs": "#!/bin/sh\nexec sleep 3600\n",
}

func newRunner(t *testing.T) *commandrunner.Runner {
	t.Helper()
	var entries []string
	for name, text := range scripts {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, name+"="+path)
	}
	r, err := commandrunner.New(entries, 256<<20)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func job(program string) workflow.Job {
	return workflow.Job{ID: "backup/7", Attempt: 1, Intent: "backup", Spec: v2.WorkflowSpec{Runner: v2.RunnerCommand, Command: program}}
}

func TestExitCodesAreTheOutcome(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	got, err := r.Run(t.Context(), job("sound"))
	if err != nil || !strings.Contains(got, `"ID":"backup/7"`) || !strings.HasSuffix(strings.TrimSpace(got), " 0 0") {
		t.Errorf("a program gets its job, no arguments and no environment: %q, %v", got, err)
	}
	for program, want := range map[string]struct {
		kind errs.Kind
		text string
	}{"later": {errs.Unavailable, "exit status 75: busy"}, "fails": {errs.Invalid, "exit status 3: no disk"}, "sh": {errs.Forbidden, `program "sh" is not allowed; the operator allows fails, hangs, later, saves, sound with workflows.programs`}} {
		if _, err := r.Run(t.Context(), job(program)); !errs.Is(err, want.kind) || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: %v", program, err)
		}
	}
}

// A program ends with its context: at the deadline, or when a user cancels.
func TestProgramsEndWithTheirRuns(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	for name, context := range map[string]func() (context.Context, context.CancelFunc){
		"deadline": func() (context.Context, context.CancelFunc) {
			return context.WithDeadline(t.Context(), time.Now().Add(50*time.Millisecond))
		},
		"cancel": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			return ctx, cancel
		},
	} {
		ctx, cancel := context()
		if _, err := r.Run(ctx, job("hangs")); !errs.Is(err, errs.Unavailable) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

// A backup writes files.
func TestProgramsMayWriteFiles(t *testing.T) {
	t.Parallel()
	if got, err := newRunner(t).Run(t.Context(), job("saves")); err != nil || strings.TrimSpace(got) != "backup" {
		t.Errorf("a program that writes a file: %q, %v", got, err)
	}
}
