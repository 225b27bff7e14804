package commandrunner_test

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow/commandrunner"
)

const began = "began" // the pipe that the program stays writes a line to

var scripts = map[string]string{
	"sound": "#!/bin/sh\nread -r job\necho \"$job $# $(/usr/bin/env | grep -v -e '^PWD=' -e '^SHLVL=' -e '^_=' | wc -l)\"\n",
	"later": "#!/bin/sh\necho busy >&2\nexit 75\n",
	"fails": "#!/bin/sh\necho no disk >&2\nexit 3\n",
	"saves": "#!/bin/sh\nset -e\nf=$(/usr/bin/mktemp)\necho backup >$f\n/bin/cat $f\n/bin/rm $f\n",
	"hangs": "#!/bin/sh\nexec sleep 3600\n",
	"stays": "#!/bin/sh\necho began >\"${0%/*}/began\"\nexec sleep 3600\n",
}

// programs is the folder of the scripts. They are written before any process starts: one that starts while a file is
// written has it open for a moment, and the kernel does not run a file that is open for writing.
var programs string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "commandrunner-")
	for name, text := range scripts {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700)
		}
	}
	if err == nil {
		err = syscall.Mkfifo(filepath.Join(dir, began), 0o600)
	}
	if err != nil {
		panic(err)
	}
	programs = dir
	code := m.Run()
	_ = os.RemoveAll(dir) // best effort: it is in the temporary folder
	os.Exit(code)
}

func newRunner(t *testing.T) *commandrunner.Runner {
	t.Helper()
	var entries []string
	for name := range scripts {
		entries = append(entries, name+"="+filepath.Join(programs, name))
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
	}{"later": {errs.Unavailable, "exit status 75: busy"}, "fails": {errs.Invalid, "exit status 3: no disk"}, "sh": {errs.Forbidden, `program "sh" is not allowed; the operator allows fails, hangs, later, saves, sound, stays with workflows.programs`}} {
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

// However many programs of one project run, and however long: those of another project run, too.
func TestProjectsShareTheProgramsThatRun(t *testing.T) {
	t.Parallel()
	pipe, err := os.OpenFile(filepath.Join(programs, began), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	r := newRunner(t)
	long, quick := job("stays"), job("sound")
	long.Group, quick.Group = "projects/a/composite-apps/ca/v1/deployment-intent-groups/g", "projects/b/composite-apps/ca/v1/deployment-intent-groups/g"
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer end()
	lines := bufio.NewReader(pipe)
	for range 2 * runtime.GOMAXPROCS(0) {
		running.Go(func() { _, _ = r.Run(ctx, long) })
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Run(t.Context(), quick); err != nil {
		t.Error(err)
	}
}
