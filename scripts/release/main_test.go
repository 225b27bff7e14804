package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const testVersion = "v9.8.7"

// The same commit gives the same bytes, from any folder and with any flags in the environment.
func TestArchivesAreReproducible(t *testing.T) {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	dirs := []string{t.TempDir(), t.TempDir()}
	for i, dir := range dirs {
		t.Setenv("GOFLAGS", []string{"", "-tags=other"}[i])
		if err := run(t.Context(), []string{"archives", "-version", testVersion, "-only", "emcoctl", "-platforms", platform + ",windows/amd64", "-out", dir}, t.Output()); err != nil {
			t.Fatal(err)
		}
	}
	first, second := content(t, dirs[0]), content(t, dirs[1])
	for name, text := range first {
		if second[name] != text {
			t.Errorf("%s differs between two builds of one commit", name)
		}
	}
	name := "emco_" + testVersion + "_" + runtime.GOOS + "_" + runtime.GOARCH
	checkSums(t, dirs[0])
	checkArchive(t, filepath.Join(dirs[0], name+".tar.gz"), name)
	checkBill(t, filepath.Join(dirs[0], name+".cdx.json"))
	checkZip(t, filepath.Join(dirs[0], "emco_"+testVersion+"_windows_amd64.zip"))
}

func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 5 {
		t.Fatalf("%d files, want two archives, two bills and the checksums (%v)", len(entries), err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

func checkSums(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "checksums.txt")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 4 {
		t.Errorf("sha256sum: %v\n%s", err, out)
	}
}

// checkArchive starts the program of the archive, and looks for what comes with it.
func checkArchive(t *testing.T, file, top string) {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	packed, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	program := filepath.Join(t.TempDir(), "emcoctl")
	files := tar.NewReader(packed)
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(h.Name, top+"/")
		names = append(names, name)
		if name == "bin/emcoctl" {
			text, err := io.ReadAll(files)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(program, text, h.FileInfo().Mode()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, want := range []string{"LICENSE", "bin/emcoctl", "completions/_emcoctl", "completions/emcoctl.bash", "completions/emcoctl.fish", "completions/emcoctl.ps1", "man/man1/emcoctl.1", "man/man1/emcoctl-apply.1", "systemd/emco.service"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s lacks %s; it has %v", file, want, names)
		}
	}
	if out, err := exec.CommandContext(t.Context(), program, "-version").Output(); err != nil || !strings.HasPrefix(string(out), "emcoctl "+testVersion+", commit ") {
		t.Errorf("emcoctl -version: %q (%v)", out, err)
	}
}

func checkBill(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat  string
		Components []struct{ Name, Version, Purl string }
	}
	if err := json.Unmarshal(text, &bill); err != nil || bill.BOMFormat != "CycloneDX" {
		t.Fatalf("%q, %v", bill.BOMFormat, err)
	}
	found := map[string]bool{}
	for _, c := range bill.Components {
		found[c.Name] = c.Version != "" && (c.Name == "emcoctl" || strings.HasPrefix(c.Purl, "pkg:golang/"+c.Name+"@"))
	}
	for _, want := range []string{"emcoctl", "std", "github.com/spf13/cobra"} {
		if !found[want] {
			t.Errorf("%s lacks %s: %v", file, want, found)
		}
	}
}

func checkZip(t *testing.T, file string) {
	t.Helper()
	z, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if !slices.ContainsFunc(z.File, func(f *zip.File) bool { return strings.HasSuffix(f.Name, "/bin/emcoctl.exe") }) {
		t.Errorf("%s has no emcoctl.exe", file)
	}
}

// What emco-temporal links is in no bill of materials but its own.
func TestEmcoTemporalHasAnArchiveOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, p := range releasePlatforms {
		var got []string
		for _, b := range (releaseBuild{}).bundles(p) {
			got = append(got, b.name+": "+strings.Join(b.programs, " "))
		}
		want := []string{"emco: emco emcoctl monitor simfleet", "emco-temporal: emco-temporal"}
		if p.OS == "windows" {
			want = []string{"emco: emcoctl"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
	only := releaseBuild{options: options{only: []string{"emco-temporal"}}}.bundles(v1.Platform{OS: "linux", Architecture: "amd64"})
	if len(only) != 1 || only[0].name != "emco-temporal" {
		t.Errorf("-only emco-temporal makes %+v", only)
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                            "usage",
		"sing":                        "none of images, archives",
		"archives -platforms a/b/c/d": "-platforms",
	} {
		if err := run(t.Context(), strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("release %s: %v, want %q", args, err, want)
		}
	}
}
