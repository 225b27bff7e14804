package all_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/execplugin"
)

// Clusters may be registered with the types of linked backends, and with no others.
func TestEveryTypeOfClustersHasABackend(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plugins, err := execplugin.Find([]string{"kapp=" + self}, execplugin.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	types := slices.Sorted(slices.Values(v2.GitOpsTypes()))
	if linked := all.On(all.Platforms{Plugins: plugins}).Names(); !slices.Equal(types, linked) {
		t.Errorf("the API accepts the types %q, backends are linked for %q", types, linked)
	}
}

const sources = "../../../../" // the folder src

// accepted is the test of the new backend: its type passes as POST …/clusters checks it,
// its sync objects are read, and it keeps the contract.
const accepted = `package all_test

import (
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/syncertest"
)

func TestNewBackend(t *testing.T) {
	body := []byte(` + "`" + `{"metadata":{"name":"c1"},"spec":{"gitOps":{"gitOpsType":"Fancy","gitOpsReferenceObject":"repo"}}}` + "`" + `)
	c, err := v2.Decode[v2.Cluster](body, v2.Lenient)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	s, err := syncobjects.Read(c.Spec.GitOps.Type, syncobjects.Object{Name: "repo", KV: []map[string]string{
		{"url": "https://git.example.org/fleet.git", "userName": "u", "gitToken": "t"},
	}}, syncobjects.Object{}, syncobjects.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := all.Backends().Open(s.Kind, syncer.Options(s.Options))
	if err != nil {
		t.Fatal(err)
	}
	if err := syncertest.Check(b); err != nil {
		t.Error(err)
	}
}
`

// The test makes the changes of the guide's row in an overlay over the sources, except golden
// files and the link in README.md. The new backend must then keep its contract, and only its
// page of documentation must be missing.
func TestABackendIsAddedByTheGuide(t *testing.T) {
	t.Parallel()
	row := guideRow(t, "a sync backend")
	places := regexp.MustCompile("`([a-z0-9A-Z/]+\\.[a-z]+)`").FindAllStringSubmatch(row, -1)
	var named []string
	for _, p := range places {
		named = append(named, p[1])
	}
	want := []string{"src/api/v2/cluster.go", "syncer/PACKAGE/PACKAGE.go", "syncer/all/all.go", "docs/backends/TYPE.md", "README.md"}
	if !slices.Equal(named, want) {
		t.Fatalf("the guide names the files %q; this test follows %q", named, want)
	}
	o := sourceOverlay{T: t, dir: t.TempDir(), replace: map[string]string{}}
	o.edit("api/v2/cluster.go", "	{PureGit,", "	{\"tiny\", []string{\"fancy\"}, true},\n	{PureGit,")
	o.add("emco/internal/syncer/tiny/tiny.go", strings.ReplaceAll(o.read("emco/internal/syncer/plaingit/plaingit.go"), "plaingit", "tiny"))
	o.edit("emco/internal/syncer/all/all.go", "	return r\n}", "	syncer.Register(r, \"tiny\", tiny.New, syncer.Options{\"syncInterval\": \"30\"})\n	return r\n}",
		"import (", "import (\n	\"github.com/emco-orchestrator/emco/src/emco/internal/syncer/tiny\"")
	o.add("emco/internal/syncer/all/tiny_test.go", accepted)
	out, err := o.test("TestNewBackend|TestBackendsKeepTheContract|TestEvery|TestOptionTables|TestAllBackends")
	if err == nil {
		t.Fatalf("no test fails for a backend without a page of documentation:\n%s", out)
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, "--- FAIL") && !strings.Contains(line, "TestOptionTables") {
			t.Errorf("a backend that was added by the guide breaks a test:\n%s", out)
		}
	}
	if !strings.Contains(out, "docs/backends/tiny.md") || !strings.Contains(out, "--- PASS: TestNewBackend") {
		t.Errorf("the missing page is not named, or the backend is not tested:\n%s", out)
	}
}

// guideRow returns a row of docs/contributing.md.
func guideRow(t *testing.T, what string) string {
	t.Helper()
	text, err := os.ReadFile(sources + "../docs/contributing.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| "+what+" |") {
			return line
		}
	}
	t.Fatalf("docs/contributing.md has no row for %s", what)
	return ""
}

// sourceOverlay is a set of files that the go command reads instead of those of the sources.
type sourceOverlay struct {
	*testing.T
	dir     string
	replace map[string]string
}

func (o sourceOverlay) read(name string) string {
	o.Helper()
	text, err := os.ReadFile(sources + name)
	if err != nil {
		o.Fatal(err)
	}
	return string(text)
}

func (o sourceOverlay) add(name, text string) {
	o.Helper()
	full, err := filepath.Abs(sources + name)
	if err != nil {
		o.Fatal(err)
	}
	file := filepath.Join(o.dir, strings.ReplaceAll(name, "/", "_"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		o.Fatal(err)
	}
	o.replace[full] = file
}

// edit replaces parts of a file, which must have all of them.
func (o sourceOverlay) edit(name string, oldNew ...string) {
	o.Helper()
	text := o.read(name)
	for i := 0; i < len(oldNew); i += 2 {
		if !strings.Contains(text, oldNew[i]) {
			o.Fatalf("%s lacks %q", name, oldNew[i])
		}
	}
	o.add(name, strings.NewReplacer(oldNew...).Replace(text))
}

// test runs tests of this package over the overlay.
func (o sourceOverlay) test(run string) (string, error) {
	o.Helper()
	text, err := json.Marshal(map[string]any{"Replace": o.replace})
	if err != nil {
		o.Fatal(err)
	}
	file := filepath.Join(o.dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		o.Fatal(err)
	}
	out, err := exec.CommandContext(o.Context(), "go", "test", "-vet=off", "-overlay", file, "-v", "-run", "^("+run+")", ".").CombinedOutput()
	return string(out), err
}
