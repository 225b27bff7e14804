package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/e2e/pages"
)

// guideVersion is the version in docs/install.md.
const guideVersion = "v0.1.0"

// standIn takes the place of programs that need an engine, a cluster or the system's service manager.
// It refuses what the real one would: files that do not exist.
const standIn = `#!/bin/sh
for word in "$@"; do
  case $word in
    deployments/*) [ -e "$word" ] || { echo "$0: $word does not exist" >&2; exit 1; } ;;
  esac
done
echo "$(basename "$0") $*" >>"$GUIDE_LOG"
`

// The commands of docs/install.md work: downloads come from a release that this test makes.
func TestInstallGuide(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the page shows the archive for linux/amd64")
	}
	releases, top := t.TempDir(), local("..", "..")
	archives := exec.CommandContext(t.Context(), "go", "run", ".", "archives", "-version", guideVersion, "-only", "emco,emcoctl,simfleet", "-platforms", "linux/amd64", "-out", filepath.Join(releases, guideVersion))
	archives.Dir, archives.Env = local("..", "release"), append(os.Environ(), "GOWORK=off")
	if out, err := archives.CombinedOutput(); err != nil {
		t.Fatalf("make the release: %v\n%s", err, out)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(releases)))
	defer server.Close()

	tools, home, log := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "log")
	for name, text := range map[string]string{
		"docker": standIn, "helm": standIn, "kubectl": standIn, "sudo": standIn,
		"make": "#!/bin/sh\nexec " + installed(t, "make") + " --dry-run \"$@\"\n", // the targets have tests of their own
		"curl": fmt.Sprintf(`#!/bin/bash
if [ "${!#}" = http://127.0.0.1:9015/readyz ]; then exit 0; fi
args=()
for a in "$@"; do
  a=${a/https:\/\/github.com\/emco-orchestrator\/emco\/releases\/download/%[1]s}
  case $a in https://raw.githubusercontent.com/emco-orchestrator/emco/main/*) exec cat "%[2]s/${a#*/main/}" ;; esac
  args+=("$a")
done
exec %[3]s "${args[@]}"
`, server.URL, top, installed(t, "curl")),
	} {
		if err := os.WriteFile(filepath.Join(tools, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(top, "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := pages.Parse("docs/install.md", string(text))
	if err != nil || len(page.Blocks) < 10 {
		t.Fatalf("%d blocks of commands, want more (%v)", len(page.Blocks), err)
	}
	work := t.TempDir() // looks like a clone, and takes downloads
	for _, name := range []string{"deployments", "Makefile", "scripts", "src"} {
		if err := os.Symlink(filepath.Join(top, name), filepath.Join(work, name)); err != nil {
			t.Fatal(err)
		}
	}
	path := strings.Join([]string{tools, filepath.Join(home, ".local", "bin"), os.Getenv("PATH")}, ":")
	env := []string{"PATH=" + path, "HOME=" + home, "GUIDE_LOG=" + log, "EMCO_RELEASES=" + server.URL, "EMCO_PREFIX=" + filepath.Join(home, ".local")}
	if out, err := page.Run(t.Context(), pages.Options{Dir: work, Env: env}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ran, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(ran), "helm install emco") || !strings.Contains(string(ran), "sudo systemctl enable --now emco") {
		t.Errorf("%v, ran\n%s", err, ran)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(home, ".local", "bin", "emcoctl"), "-version").Output()
	if err != nil || !strings.HasPrefix(string(out), "emcoctl "+guideVersion+",") {
		t.Errorf("the guide installed %q (%v)", out, err)
	}
}

func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
