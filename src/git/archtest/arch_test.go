package archtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/archtest"
)

const module = "github.com/emco-orchestrator/emco/src/git"

// arrows lists for each package the packages of this module ("." is the port itself) and
// the other modules that it may import. Tests may import any package.
var arrows = map[string]struct{ own, modules []string }{
	".":         {},
	"transport": {own: []string{"."}},
	"tree":      {own: []string{"."}},
	"batch":     {own: []string{".", "cooldown"}},
	"cooldown":  {own: []string{"."}},
	"budget":    {own: []string{"."}},
	"sshsig":    {own: []string{"."}, modules: []string{"golang.org/x/crypto/ssh"}},
	"plain": {
		own:     []string{".", "internal/recent", "plain/internal/dial", "plain/internal/fetch", "plain/internal/treecache", "plain/internal/wire", "plain/internal/pack", "transport", "tree"},
		modules: []string{plumbing},
	},
	"github":  {own: []string{".", "github/internal/api", "github/internal/treeplan", "internal/recent", "transport", "tree"}, modules: []string{goGitHub}},
	"gitlab":  {own: []string{".", "plain", "transport"}, modules: []string{"gitlab.com/gitlab-org/api/client-go"}},
	"githttp": {},
	"gittest": {own: []string{".", "githttp"}, modules: []string{"golang.org/x/crypto/ssh"}},
	"all":     {own: []string{".", "plain", "github", "gitlab"}},

	"internal/recent": {own: []string{"."}},

	"plain/internal/pack":      {own: []string{"transport", "tree"}, modules: []string{plumbing, "github.com/klauspost/compress/zlib"}},
	"plain/internal/dial":      {own: []string{".", "transport"}, modules: []string{plumbing, "golang.org/x/crypto/ssh"}},
	"plain/internal/wire":      {own: []string{".", "plain/internal/dial", "plain/internal/pack", "transport"}, modules: []string{plumbing}},
	"plain/internal/treecache": {own: []string{".", "plain/internal/pack", "transport", "tree"}, modules: []string{plumbing}},
	"plain/internal/fetch":     {own: []string{".", "plain/internal/dial", "plain/internal/pack", "plain/internal/treecache", "plain/internal/wire", "transport", "tree"}, modules: []string{plumbing}},

	"github/internal/api":      {own: []string{".", "transport"}, modules: []string{goGitHub}},
	"github/internal/treeplan": {own: []string{"tree"}},

	"gittest/githubtest": {own: []string{".", "githttp", "gittest"}},
	"gittest/gitlabtest": {own: []string{"githttp", "gittest"}},

	"archtest": {},
}

// plumbing is the part of go-git that reads and writes Git's formats.
const plumbing = "github.com/go-git/go-git/v5/plumbing"

// goGitHub is the client of GitHub's API.
const goGitHub = "github.com/google/go-github/v60/github"

// never is what nothing here may link, tests included.
var never = []string{"k8s.io", "sigs.k8s.io", "go.etcd.io", "go.mongodb.org", "github.com/stretchr", "github.com/prometheus"}

// wholeClient is the complete client of go-git: its worktrees and its Push are not used.
const wholeClient = "github.com/go-git/go-git/v5"

func TestImportArrows(t *testing.T) {
	t.Parallel()
	archtest.Check(t, "..", 50, fault)
}

func fault(pkg, name string, test bool) string {
	may, listed := arrows[pkg]
	switch {
	case !listed:
		return "the package is not in arrows; add it there"
	case archtest.Below(name, never):
		return "nothing here may link it"
	case name == wholeClient:
		return "only the plumbing of go-git is used, never its repositories and worktrees"
	case test || !strings.Contains(strings.Split(name, "/")[0], "."):
		return ""
	case name == "github.com/emco-orchestrator/emco/src/api/errs", name == "github.com/emco-orchestrator/emco/src/api/outbound":
		return ""
	case name == module:
		if !slices.Contains(may.own, ".") {
			return "arrow goes the wrong way"
		}
		return ""
	case strings.HasPrefix(name, module+"/"):
		if !slices.Contains(may.own, strings.TrimPrefix(name, module+"/")) {
			return "arrow goes the wrong way"
		}
		return ""
	case archtest.Below(name, may.modules):
		return ""
	}
	return "not a module that the package may use"
}

// The rules catch what they are for.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pkg, name string
		test, bad bool
	}{
		{".", module + "/plain", false, true},
		{"batch", module + "/plain", false, true},
		{"batch", module + "/plain", true, false},
		{"batch", module, false, false},
		{"plain", module + "/batch", false, true},
		{"plain", "k8s.io/api/core/v1", true, true},
		{"plain/internal/wire", module + "/plain/internal/fetch", false, true},
		{"plain/internal/wire", wholeClient, false, true},
		{"plain/internal/wire", wholeClient + "/plumbing/format/pktline", false, false},
		{"plain", "net/http", false, false},
		{"batch", "golang.org/x/crypto/ssh", false, true},
		{"new", "fmt", false, true},
	} {
		if got := fault(c.pkg, c.name, c.test); c.bad != (got != "") {
			t.Errorf("fault(%s, %s, %v) = %q, want one: %v", c.pkg, c.name, c.test, got, c.bad)
		}
	}
}

func TestMutexesNameWhatTheyGuard(t *testing.T) {
	t.Parallel()
	archtest.CheckGuards(t, "..")
}
