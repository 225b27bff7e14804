package app_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// built is the command line as the first test that needs it builds it. TestMain removes its folder.
var built struct {
	once sync.Once
	dir  string // "" if nothing was built
	err  error
}

// emcoctl returns the folder that the command line is in.
func emcoctl(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "emcoctl"); built.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", built.dir, "github.com/emco-orchestrator/emco/src/emcoctl").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("build emcoctl: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

// planDigest is the digest of a plan, which contains ids that differ from run to run.
var planDigest = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// The command line against the whole program: testdata/cli.txtar plays the life of a
// deployment. The script may change documents by commands of its own:
//
//	repack APP OLD NEW       replaces a word in the template of an app's chart
//	place APP CLUSTER...     changes where an app goes
func TestTheCommandLine(t *testing.T) {
	t.Parallel()
	bin := emcoctl(t)
	s := newStage(t)
	s.fleet("a", "b", "c")
	s.onboard("cache", "web")
	g := s.group("autumn", appPlaces{"web": nil, "cache": {"a"}})
	s.group("winter", appPlaces{"web": {"b"}, "cache": {"a"}})
	testscript.Run(t, testscript.Params{
		Files:               []string{filepath.Join("testdata", "cli.txtar")},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("EMCO_URL", strings.TrimSuffix(s.api.URL("/"), "/"))
			env.Setenv("HOME", env.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"repack": func(_ *testscript.TestScript, _ bool, args []string) {
				s.repack(args[0], strings.ReplaceAll(configMap, args[1], args[2]))
			},
			"cmpplan": func(ts *testscript.TestScript, _ bool, args []string) {
				got := planDigest.ReplaceAllString(ts.ReadFile("stdout"), "sha256:DIGEST")
				if want := ts.ReadFile(args[0]); got != want {
					ts.Fatalf("the plan is\n%s\nwant\n%s", got, want)
				}
			},
			"place": func(_ *testscript.TestScript, _ bool, args []string) { g.moveTo(args[0], args[1:]...) },
		},
	})
}
