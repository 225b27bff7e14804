package execplugin_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/execplugin"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/syncertest"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestMain lets this program be the executables of the tests: they are links to it, and
// go by their names, since there are neither arguments nor an environment.
func TestMain(m *testing.M) {
	act, isPlugin := acts[filepath.Base(os.Args[0])]
	if !isPlugin {
		os.Exit(m.Run())
	}
	text, err := io.ReadAll(os.Stdin)
	var q request
	if err = errors.Join(err, json.Unmarshal(text, &q)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if q.Kind == "describe" && !strings.HasPrefix(filepath.Base(os.Args[0]), "describing") {
		fmt.Print(`{"pointers":["sample"]}`)
		return
	}
	act(q)
}

// request is what the executables of the tests read.
type request struct {
	Version int
	Kind    string `json:"ask"`
	Options map[string]string
	Target  struct{ Dir, Root, Deployment, Branch string }
	Objects []struct{ App, File, Content string }
}

// pointer is the path of the pointer file that the executables announce.
func (q request) pointer() string { return q.Target.Root + "/sample" + q.Target.Deployment + ".yaml" }

func say(answer any) {
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		os.Exit(1)
	}
}

type tree = map[string]any

var acts = map[string]func(request){
	"sound": func(q request) {
		files, pointer := map[string]string{}, tree{"path": q.pointer()}
		for _, o := range q.Objects {
			files[o.File] = o.Content
			pointer["content"] = "branch: " + q.Target.Branch + "\n"
		}
		say(tree{"edits": []tree{pointer, {"path": q.Target.Dir, "files": files}}})
	},
	"silent": func(request) { time.Sleep(time.Hour) },
	"noisy": func(request) {
		for {
			fmt.Print(strings.Repeat("x", 1<<16))
		}
	},
	"hungry": func(request) {
		var all [][]byte
		for {
			b := make([]byte, 16<<20)
			for i := range b {
				b[i] = 1
			}
			all = append(all, b)
			if len(all) > 1<<10 {
				return
			}
		}
	},
	"crashing": func(q request) {
		fmt.Fprintln(os.Stderr, "cannot log in with", q.Options["password"])
		os.Exit(3)
	},
	"climbing": func(request) { say(tree{"edits": []tree{{"path": "../../etc/cron.d/x", "content": "x"}}}) },
	"elsewhere": func(q request) {
		say(tree{"edits": []tree{{"path": q.pointer()}, {"path": q.Target.Dir}, {"path": "README.md", "content": "mine"}}})
	},
	"stammering": func(request) { fmt.Print(`{"edits":[]}{"edits":[]}`) },
	"mistaken":   func(request) { fmt.Print(`{"edit":[]}`) },
	"mute":       func(request) {},
	"refusing":   func(request) { say(tree{"error": "too many\nreplicas", "app": "shop", "object": "Deployment web"}) },
	"looking": func(request) {
		here, _ := os.Getwd()
		say(tree{"error": fmt.Sprint("env ", os.Environ(), " args ", os.Args[1:], " in ", here)})
	},
	"describing-refuses": func(q request) { say(tree{"error": "no key colour, but " + q.Options["password"]}) },
	"describing-badly":   func(request) { say(tree{"pointers": []string{"../x"}}) },
}

// programs links the executables of the tests into a folder.
func programs(t *testing.T, l execplugin.Limits) *execplugin.Programs {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var entries []string
	for name := range acts {
		link := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(self, link); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, name+"="+link)
	}
	p, err := execplugin.Find(entries, l)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// open opens an executable as the registry does.
func open(p *execplugin.Programs, plugin string) (syncer.Backend, error) {
	r := syncer.NewRegistry()
	syncer.Register(r, "exec", p.New, nil)
	return r.Open("exec", syncer.Options{"plugin": plugin, "syncInterval": "30", "password": syncertest.Planted})
}

func TestAnExecutableKeepsTheContract(t *testing.T) {
	t.Parallel()
	b, err := open(programs(t, execplugin.DefaultLimits()), "sound")
	if err != nil {
		t.Fatal(err)
	}
	if err := syncertest.Check(b); err != nil {
		t.Error(err)
	}
}

// The executable of examples/03-sync-plugin is what docs/backends/exec.md leads to.
func TestTheExampleKeepsTheContract(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "kapp")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "../../../../../examples/03-sync-plugin/main.go")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, out)
	}
	p, err := execplugin.Find([]string{"kapp=" + bin}, execplugin.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	r := syncer.NewRegistry()
	syncer.Register(r, "exec", p.New, nil)
	b, err := r.Open("exec", syncer.Options{"plugin": "kapp", "secretRef": "emco-git", "serviceAccountName": "deployer"})
	if err != nil {
		t.Fatal(err)
	}
	if err := syncertest.Check(b); err != nil {
		t.Error(err)
	}
	syncertest.Golden(t, b, "testdata/example.txtar", *update)
	if _, err := r.Open("exec", syncer.Options{"plugin": "kapp"}); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "serviceAccountName is missing") {
		t.Errorf("without an account: %v, want what the example says", err)
	}
}

func TestFaultsOfExecutablesAreReported(t *testing.T) {
	t.Parallel()
	limits := execplugin.Limits{Time: 20 * time.Second, Memory: 256 << 20, Output: 1 << 20, Parallel: 2}
	impatient := limits
	impatient.Time = 500 * time.Millisecond
	for name, want := range map[string]struct {
		kind errs.Kind
		text string
	}{
		"silent":     {errs.Unavailable, "sync plugin silent: it did not respond within 500ms"},
		"noisy":      {errs.Unavailable, "it wrote more than 1048576 bytes"},
		"hungry":     {errs.Unavailable, "memory"},
		"crashing":   {errs.Unavailable, "exit status 3: cannot log in with ***"},
		"climbing":   {errs.Internal, "is not clean"},
		"elsewhere":  {errs.Internal, "README.md"},
		"stammering": {errs.Unavailable, "more than one response"},
		"mistaken":   {errs.Unavailable, `unknown field "edit"`},
		"mute":       {errs.Unavailable, "EOF"},
		"refusing":   {errs.Invalid, "sync plugin refusing: app shop: Deployment web: too many replicas"},
		"looking":    {errs.Invalid, "env [] args [] in /"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := limits
			if name == "silent" {
				l = impatient
			}
			b, err := open(programs(t, l), name)
			if err != nil {
				t.Fatal(err)
			}
			o := syncertest.Object(manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "n", Name: "c"}, nil)
			_, err = b.Plan(syncertest.Target("p+c"), []syncer.App{{Name: "shop", Objects: []manifest.Object{o}}})
			if !errs.Is(err, want.kind) || !strings.Contains(err.Error(), want.text) || strings.Contains(err.Error(), syncertest.Planted) {
				t.Errorf("Plan: %v (kind %v)\nwant %v with %q, and no credential", err, errs.KindOf(err), want.kind, want.text)
			}
		})
	}
}

func TestOpenRunsTheExecutable(t *testing.T) {
	t.Parallel()
	p := programs(t, execplugin.DefaultLimits())
	for plugin, want := range map[string]string{
		"":                   "must name one of the executables that the operator has configured: climbing, ",
		"/bin/true":          "must name one of",
		"describing-refuses": "no key colour, but ***",
		"describing-badly":   "cannot be part of a file name",
	} {
		if _, err := open(p, plugin); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open with plugin %q: %v, want an error with %q", plugin, err, want)
		}
	}
}

func TestFindAcceptsExecutablesByNameAndPath(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, entries := range [][]string{
		{self},
		{"=" + self},
		{"a b=" + self},
		{"a/b=" + self},
		{"a=sh"},
		{"a=./x"},
		{"a=/no/such/file"},
		{"a=" + plain},
		{"a=" + filepath.Dir(plain)},
		{"a=" + self, "a=" + self},
	} {
		if _, err := execplugin.Find(entries, execplugin.DefaultLimits()); err == nil {
			t.Errorf("Find(%q) took it", entries)
		}
	}
}
