package demo_test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/simfleet/internal/demo"
)

// A demonstration that cannot start names everything that is missing, and leaves no folder behind.
func TestWhatIsMissingIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	err := demo.Run(t.Context(), demo.Options{Self: filepath.Join(t.TempDir(), "simfleet"), Out: io.Discard})
	for _, want := range []string{"emco is neither in", "emcoctl is neither in", "git is not on the PATH", "tar is not on the PATH"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	nothingIn(t, os.TempDir())
}

func TestTheFolderOfProgramsMustHaveThem(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	file(t, filepath.Join(bin, "emco"), 0o600, "")
	err := demo.Run(t.Context(), demo.Options{Bin: bin, Out: io.Discard})
	for _, want := range []string{filepath.Join(bin, "emco") + ": it is no file that can be executed", filepath.Join(bin, "emcoctl") + ": "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

// The demonstration writes into no folder that holds something else.
func TestTheFolderForEverythingMustBeEmpty(t *testing.T) {
	t.Parallel()
	bin, data := t.TempDir(), t.TempDir()
	file(t, filepath.Join(bin, "emco"), 0o700, "#!/bin/sh\n")
	file(t, filepath.Join(bin, "emcoctl"), 0o700, "#!/bin/sh\n")
	file(t, filepath.Join(data, "letters"), 0o600, "")
	err := demo.Run(t.Context(), demo.Options{Bin: bin, Data: data, Out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), data+" is not empty: it contains letters") {
		t.Errorf("the error is %v", err)
	}
}

// An emco that does not start is reported with its own words, and nothing that was started stays.
func TestAnEmcoThatDoesNotStart(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	file(t, filepath.Join(bin, "emco"), 0o700, "#!/bin/sh\necho '{\"msg\":\"the disk is full\"}' >&2\nexit 1\n")
	file(t, filepath.Join(bin, "emcoctl"), 0o700, "#!/bin/sh\n")
	err := demo.Run(t.Context(), demo.Options{Bin: bin, Out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "emco did not start; the last line of its log: {\"msg\":\"the disk is full\"}") {
		t.Errorf("the error is %v", err)
	}
	nothingIn(t, os.TempDir())
}

// The Git server of the demonstration wants its token: what runs beside on the machine must not write to it. A
// program in the place of emcoctl, the first one that hears of the server, looks.
func TestTheGitServerWantsItsToken(t *testing.T) {
	t.Parallel()
	bin, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	file(t, filepath.Join(bin, "emco"), 0o700, "#!/bin/sh\necho '{\"msg\":\"emco serves\",\"address\":\"127.0.0.1:1\"}' >&2\nexec sleep 60\n")
	file(t, filepath.Join(bin, "emcoctl"), 0o700, "#!/bin/sh\nexit 1\n")
	file(t, filepath.Join(bin, "simfleet"), 0o700, "#!/bin/sh\nexec sleep 60\n")
	var got int
	out := writer(func(text string) {
		_, url, found := strings.Cut(text, "the Git server ")
		url, _, _ = strings.Cut(url, ",")
		if !found {
			return
		}
		res, err := http.Get(url + "/info/refs?service=git-upload-pack")
		if err != nil {
			t.Error(err)
			return
		}
		got = res.StatusCode
		res.Body.Close()
	})
	err := demo.Run(t.Context(), demo.Options{Self: filepath.Join(bin, "simfleet"), Bin: bin, Data: data, Out: out})
	if err == nil || !strings.Contains(err.Error(), "emcoctl apply: exit code 1, want 0") {
		t.Errorf("the error is %v", err)
	}
	if got != http.StatusUnauthorized {
		t.Errorf("the Git server answers %d to a stranger", got)
	}
	if _, err := os.Stat(filepath.Join(data, "emco.log")); err != nil {
		t.Errorf("the folder that was named has no log: %v", err)
	}
}

// What the user has set for an EMCO and a repository of their own does not reach the programs of the demonstration.
func TestSettingsOfTheUserAreLeftAlone(t *testing.T) {
	bin, data, mine := t.TempDir(), filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "mine.git")
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", append([]string{"--git-dir", mine}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	git("init", "--quiet", "--bare", mine)
	t.Setenv("GIT_DIR", mine)
	t.Setenv("EMCO_ETCD_ENDPOINTS", "http://etcd.example.org:2379")
	t.Setenv("EMCO_TOKEN", "of another server")
	t.Setenv("EMCOCTL_OUTPUT", "json")
	const tell = "#!/bin/sh\nenv >\"$0.env\"\n"
	file(t, filepath.Join(bin, "emco"), 0o700, tell+"echo '{\"msg\":\"emco serves\",\"address\":\"127.0.0.1:1\"}' >&2\nexec sleep 60\n")
	file(t, filepath.Join(bin, "emcoctl"), 0o700, tell+"exit 1\n")
	file(t, filepath.Join(bin, "simfleet"), 0o700, "#!/bin/sh\nexec sleep 60\n")
	err := demo.Run(t.Context(), demo.Options{Self: filepath.Join(bin, "simfleet"), Bin: bin, Data: data, Out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "emcoctl apply: exit code 1, want 0") {
		t.Errorf("the error is %v", err)
	}
	for _, program := range []string{"emco", "emcoctl"} {
		env, err := os.ReadFile(filepath.Join(bin, program+".env"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(env)) {
			if name, _, _ := strings.Cut(line, "="); strings.HasPrefix(name, "EMCO") && name != "EMCO_URL" || strings.HasPrefix(name, "GIT_") {
				t.Errorf("%s has %s", program, line)
			}
		}
	}
	if refs := git("for-each-ref"); refs != "" {
		t.Errorf("the user's repository has %s", refs)
	}
}

// A long line in emco's log does not hold emco up: the log is read to its end.
func TestALongLineInTheLog(t *testing.T) {
	t.Parallel()
	bin, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	done := filepath.Join(bin, "done")
	file(t, filepath.Join(bin, "emco"), 0o700, "#!/bin/sh\necho '{\"msg\":\"emco serves\",\"address\":\"127.0.0.1:1\"}' >&2\n"+
		"head -c 400000 /dev/zero | tr '\\0' x >&2\necho >&2\ntouch "+done+"\nexec sleep 60\n")
	file(t, filepath.Join(bin, "emcoctl"), 0o700, "#!/bin/sh\nfor i in $(seq 100); do [ -e "+done+" ] && exit 1; sleep 0.1; done\nexit 2\n")
	file(t, filepath.Join(bin, "simfleet"), 0o700, "#!/bin/sh\nexec sleep 60\n")
	err := demo.Run(t.Context(), demo.Options{Self: filepath.Join(bin, "simfleet"), Bin: bin, Data: data, Out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "emcoctl apply: exit code 1, want 0") {
		t.Errorf("the error is %v", err)
	}
	if log, err := os.Stat(filepath.Join(data, "emco.log")); err != nil || log.Size() < 400000 {
		t.Errorf("the log: %v, %v", log, err)
	}
}

type writer func(text string)

func (w writer) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

func file(t *testing.T, name string, mode os.FileMode, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func nothingIn(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%s holds %v, %v", dir, left, err)
	}
}
