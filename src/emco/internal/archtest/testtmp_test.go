package archtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Files of tests go into memory only where a whole run fits.
func TestTemporaryFilesGoToMemoryThatIsLargeEnough(t *testing.T) {
	t.Parallel()
	meminfo := func(kib string) string {
		path := filepath.Join(t.TempDir(), "meminfo")
		if err := os.WriteFile(path, []byte("MemTotal: 99999999 kB\nMemAvailable: "+kib+" kB\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	chosen := func(args ...string) string {
		out, err := exec.Command(filepath.Join(repository, "scripts/testtmp"), args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	const much, little = "4000000", "2000000"
	for what, args := range map[string][]string{
		"a folder on a disk": {repository, meminfo(much)},
		"a missing folder":   {filepath.Join(repository, "missing"), meminfo(much)},
		"too little memory":  {"/dev/shm", meminfo(little)},
		"an unknown memory":  {"/dev/shm", filepath.Join(repository, "missing")},
	} {
		if got := chosen(args...); got != "/tmp" {
			t.Errorf("%s: files go to %s, want /tmp", what, got)
		}
	}
	want := "/tmp"
	if memoryRunsPrograms("/dev/shm", 2<<20) {
		want = "/dev/shm"
	}
	if got := chosen("/dev/shm", meminfo(much)); got != want {
		t.Errorf("files go to %s, want %s", got, want)
	}
}

// go test links in the GOTMPDIR of its settings, because T.TempDir would follow the variable of that name. It links
// without debugging information.
func TestMakeTestLinksOnTheDiskAndPutsFilesOfTestsIntoMemory(t *testing.T) {
	t.Parallel()
	const program = `#!/bin/sh
if [ $1 = env ]; then echo $OWN; else echo "$(cat $GOENV) tests: $GOTMPDIR$TMPDIR $GOFLAGS"; fi
`
	bin, own := t.TempDir(), filepath.Join(t.TempDir(), "env")
	if err := errors.Join(os.WriteFile(filepath.Join(bin, "go"), []byte(program), 0o700),
		os.WriteFile(own, []byte("GOPROXY=off\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("make", "-s", "-C", repository, "BIN="+t.TempDir(), "test")
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "OWN=" + own}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make test: %v\n%s", err, out)
	}
	folder, err := exec.Command(filepath.Join(repository, "scripts/testtmp")).Output()
	if err != nil {
		t.Fatal(err)
	}
	// go test runs for the workspace, and for four modules of scripts.
	want := strings.Repeat("GOPROXY=off\n\nGOTMPDIR=/tmp tests: "+strings.TrimSpace(string(folder))+" -trimpath -gcflags=all=-dwarf=false\n", 5)
	if string(out) != want {
		t.Errorf("go test sees\n%swant\n%s", out, want)
	}
	show := exec.Command("make", "-s", "-C", repository, "env")
	show.Env = cmd.Env
	out, err = show.CombinedOutput()
	want = `export CGO_ENABLED="0" GOFLAGS="-trimpath -gcflags=all=-dwarf=false" TMPDIR="` + strings.TrimSpace(string(folder)) + "\"\n"
	if err != nil || string(out) != want {
		t.Errorf("make env prints %s (%v), want %s", out, err, want)
	}
}

// memoryRunsPrograms reports whether the kernel's table of mounts has a tmpfs there that allows programs,
// and df finds so many KiB free.
func memoryRunsPrograms(dir string, kib int) bool {
	mounts, _ := os.ReadFile("/proc/mounts")
	runs := false
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == dir {
			runs = f[2] == "tmpfs" && !strings.Contains(f[3], "noexec")
		}
	}
	out, err := exec.Command("df", "-Pk", dir).Output()
	f := strings.Fields(string(out))
	if !runs || err != nil || len(f) < 6 {
		return false
	}
	free, err := strconv.Atoi(f[len(f)-3])
	return err == nil && free >= kib
}

// make test gives the folder to tests: what they create by T.TempDir is there, too.
func TestMakeTestPutsFilesOfTestsThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module x\n",
		"x_test.go": "package x\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { t.Fatal(\"files are in \" + t.TempDir()) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	makefile := filepath.Join(root, "Makefile")
	if _, err := os.Stat(makefile); err != nil { // a cached result is for this one
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "scripts"), filepath.Join(dir, "scripts")); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		for _, v := range os.Environ() { // as from a shell, not from make
			if name, _, _ := strings.Cut(v, "="); !slices.Contains([]string{"TMPDIR", "GOTMPDIR", "GOENV", "MAKEFLAGS", "MAKELEVEL"}, name) {
				cmd.Env = append(cmd.Env, v)
			}
		}
		cmd.Env = append(cmd.Env, "GOWORK=off")
		out, _ := cmd.CombinedOutput() // the test fails, to show what it prints
		return strings.TrimSpace(string(out))
	}
	want := "files are in " + run("scripts/testtmp") + "/TestX"
	if out := run("make", "-f", makefile, "test-work"); !strings.Contains(out, want) {
		t.Errorf("want %s, got\n%s", want, out)
	}
}
