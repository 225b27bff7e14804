package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/scripts/release/archive"
)

// releaseServer serves releases of a program that prints its version.
type releaseServer struct {
	*httptest.Server
	dir string
}

func newReleaseServer(t *testing.T) releaseServer {
	t.Helper()
	s := releaseServer{dir: t.TempDir()}
	routes := http.NewServeMux()
	routes.Handle("/", http.FileServer(http.Dir(s.dir)))
	routes.Handle("/latest", http.RedirectHandler("/tag/v1.2.3", http.StatusFound))
	routes.HandleFunc("/tag/", func(http.ResponseWriter, *http.Request) {})
	s.Server = httptest.NewServer(routes)
	t.Cleanup(s.Close)
	return s
}

// publish writes a release for a platform, and returns the archive of most programs.
func (s releaseServer) publish(t *testing.T, version, platform string) string {
	t.Helper()
	program := func(name string) string { return "#!/bin/sh\necho " + name + " " + version + "\n" }
	packed := s.pack(t, "emco", version, platform, map[string]string{
		"bin/emco": program("emco"), "bin/emcoctl": program("emcoctl"), "man/man1/emcoctl.1": "man", "man/man1/emcoctl-apply.1": "man",
	})
	other := s.pack(t, "emco-temporal", version, platform, map[string]string{"bin/emco-temporal": program("emco-temporal"), "man/man1/emco-temporal.1": "man"})
	if err := writeChecksums(filepath.Join(s.dir, version, "checksums.txt"), []string{packed, other}); err != nil {
		t.Fatal(err)
	}
	return packed
}

// pack writes an archive, and returns its path.
func (s releaseServer) pack(t *testing.T, bundle, version, platform string, content map[string]string) string {
	t.Helper()
	files := filepath.Join(t.TempDir(), "files")
	var all []archive.File
	for name, text := range content {
		path := filepath.Join(files, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		all = append(all, archive.File{Name: name, Path: path, Exec: strings.HasPrefix(name, "bin/")})
	}
	top := bundle + "_" + version + "_" + platform
	packed := filepath.Join(s.dir, version, top+".tar.gz")
	if err := os.MkdirAll(filepath.Dir(packed), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := archive.Write(packed, top, all, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	return packed
}

// install runs the installer on a machine of that kind.
func (s releaseServer) install(t *testing.T, system, machine string, args ...string) (prefix, output string, err error) {
	t.Helper()
	prefix, tools := filepath.Join(t.TempDir(), "prefix"), t.TempDir()
	uname := fmt.Sprintf("#!/bin/sh\ncase $1 in -s) echo %s ;; -m) echo %s ;; esac\n", system, machine)
	syscall.ForkLock.RLock() // a process that starts meanwhile would have the program open, and the kernel would not run it
	err = os.WriteFile(filepath.Join(tools, "uname"), []byte(uname), 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"../../install.sh", "--prefix", prefix, "--url", s.URL}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return prefix, string(out), err
}

func TestInstall(t *testing.T) {
	t.Parallel()
	s := newReleaseServer(t)
	s.publish(t, "v1.2.3", "linux_amd64")
	s.publish(t, "v1.2.3-rc.1", "darwin_arm64")

	prefix, out, err := s.install(t, "Linux", "x86_64", "--version", "v1.2.3")
	if err != nil || !strings.Contains(out, "add "+prefix+"/bin to PATH") {
		t.Fatalf("%v\n%s", err, out)
	}
	said, err := exec.CommandContext(t.Context(), filepath.Join(prefix, "bin", "emcoctl")).Output()
	if err != nil || string(said) != "emcoctl v1.2.3\n" {
		t.Errorf("the installed program printed %q (%v)", said, err)
	}
	checkInstalled(t, prefix, "bin/emco", "bin/emcoctl", "share/man/man1/emcoctl-apply.1", "share/man/man1/emcoctl.1")

	if prefix, out, err = s.install(t, "Linux", "amd64"); err != nil || !strings.Contains(out, "bin/emco v1.2.3") {
		t.Errorf("the latest release: %v\n%s", err, out)
	}
	checkInstalled(t, prefix, "bin/emco", "bin/emcoctl", "share/man/man1/emcoctl-apply.1", "share/man/man1/emcoctl.1")

	prefix, out, err = s.install(t, "Darwin", "arm64", "--version", "v1.2.3-rc.1", "--only", "emcoctl")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checkInstalled(t, prefix, "bin/emcoctl", "share/man/man1/emcoctl-apply.1", "share/man/man1/emcoctl.1")

	if prefix, out, err = s.install(t, "Linux", "x86_64", "--only", "emco-temporal"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checkInstalled(t, prefix, "bin/emco-temporal", "share/man/man1/emco-temporal.1")
}

func checkInstalled(t *testing.T, prefix string, want ...string) {
	t.Helper()
	below, err := archive.Below(prefix, "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range below {
		got = append(got, strings.TrimPrefix(f.Name, "/"))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("installed %v, want %v", got, want)
	}
}

// What fails installs nothing and says why.
func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	s := newReleaseServer(t)
	changed := s.publish(t, "v1.0.1", "linux_amd64")
	if err := os.WriteFile(changed, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.publish(t, "v1.0.2", "linux_amd64")
	sums := filepath.Join(s.dir, "v1.0.2", "checksums.txt")
	if err := os.WriteFile(sums, fmt.Appendf(nil, "%x  other.tar.gz\n", sha256.Sum256(nil)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.publish(t, "v1.0.3", "linux_amd64")
	for name, c := range map[string]struct {
		system, machine, args, want string
	}{
		"a changed archive":       {"Linux", "x86_64", "--version v1.0.1", "does not have the sum"},
		"a sum that is missing":   {"Linux", "x86_64", "--version v1.0.2", "does not list"},
		"a release that is none":  {"Linux", "x86_64", "--version v9.9.9", "is v9.9.9 a release?"},
		"a word for a version":    {"Linux", "x86_64", "--version newest", "not a version"},
		"a path for a version":    {"Linux", "x86_64", "--version ../v1", "not a version"},
		"another platform":        {"Linux", "aarch64", "--version v1.0.3", "cannot download"},
		"an unknown machine":      {"Linux", "riscv64", "--version v1.0.3", "no archive for riscv64"},
		"an unknown system":       {"MINGW64_NT-10.0", "x86_64", "--version v1.0.3", "unpack the .zip"},
		"a program that is none":  {"Linux", "x86_64", "--version v1.0.3 --only kubectl", "has no program kubectl; it has: emco emcoctl"},
		"an option that is none":  {"Linux", "x86_64", "--force", "not an option"},
		"an option without value": {"Linux", "x86_64", "--version", "needs a value"},
	} {
		prefix, out, err := s.install(t, c.system, c.machine, strings.Fields(c.args)...)
		if err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v, %q, want %q", name, err, out, c.want)
		}
		if _, err := os.Stat(prefix); err == nil {
			t.Errorf("%s: something was installed", name)
		}
	}
}
