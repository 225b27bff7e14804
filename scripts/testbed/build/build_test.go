package build

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// wrapper creates a folder of parts with one small part.
func wrapper(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "parts", "kube")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func small() map[string]string {
	return map[string]string{"go.mod": "module example.test/small\n\ngo 1.26.0\n", "go.sum": "", "main.go": "package main\n\nfunc main() {}\n"}
}

func TestTheHashCoversWhatTheResultDependsOn(t *testing.T) {
	p, err := find("kube")
	if err != nil {
		t.Fatal(err)
	}
	hashOf := func(change func(files map[string]string, p *partRecipe), toolchain string) string {
		files, q := small(), p
		change(files, &q)
		h, err := hashPart(wrapper(t, files), q, toolchain)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	nothing := func(map[string]string, *partRecipe) {}
	base := hashOf(nothing, "go1.26.8 linux amd64")
	for _, c := range []struct {
		name      string
		change    func(map[string]string, *partRecipe)
		toolchain string
		same      bool
	}{
		{"the same content elsewhere", nothing, "go1.26.8 linux amd64", true},
		{"a file that is not built", func(f map[string]string, _ *partRecipe) { f["README.md"] = "x" }, "go1.26.8 linux amd64", true},
		{"another version of Go", nothing, "go1.27.0 linux amd64", false},
		{"another requirement", func(f map[string]string, _ *partRecipe) { f["go.mod"] += "// x\n" }, "go1.26.8 linux amd64", false},
		{"another checksum", func(f map[string]string, _ *partRecipe) { f["go.sum"] = "x" }, "go1.26.8 linux amd64", false},
		{"another main", func(f map[string]string, _ *partRecipe) { f["main.go"] += "// x\n" }, "go1.26.8 linux amd64", false},
		{"one more source file", func(f map[string]string, _ *partRecipe) { f["more.go"] = "package main\n" }, "go1.26.8 linux amd64", false},
		{"other linker flags", func(_ map[string]string, p *partRecipe) { p.ldflags = "-s" }, "go1.26.8 linux amd64", false},
		{"other build tags", func(_ map[string]string, p *partRecipe) { p.tags = "x" }, "go1.26.8 linux amd64", false},
		{"a C compiler", func(_ map[string]string, p *partRecipe) { p.cgo = true }, "go1.26.8 linux amd64", false},
		{"other folders copied", func(_ map[string]string, p *partRecipe) { p.folders = []folderCopy{{name: "x"}} }, "go1.26.8 linux amd64", false},
		{"other files copied", func(_ map[string]string, p *partRecipe) { p.copies = []textExtract{{name: "x"}} }, "go1.26.8 linux amd64", false},
	} {
		if got := hashOf(c.change, c.toolchain); (got == base) != c.same {
			t.Errorf("%s: hash %s, base %s, want same: %v", c.name, got, base, c.same)
		}
	}
}

func TestFindLooksUpwards(t *testing.T) {
	dir := wrapper(t, small())
	below := filepath.Join(dir, "a", "b")
	want := filepath.Dir(dir)
	if got, err := Find(below); err != nil || got != want {
		t.Errorf("Find(%s) = %s, %v, want %s", below, got, err, want)
	}
	if got, err := Find("/"); err == nil {
		t.Errorf("Find(/) = %s, want an error", got)
	}
}

func TestAnUnknownPartIsRefused(t *testing.T) {
	b := &Builder{parts: t.TempDir(), cache: t.TempDir(), progress: &bytes.Buffer{}}
	if _, err := b.Build(t.Context(), "docker"); err == nil || !strings.Contains(err.Error(), "docker") {
		t.Errorf("Build(docker): %v, want an error that names it", err)
	}
}

func TestEveryPartOfTheRecipeHasItsWrapper(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := Find(wd)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		for _, file := range []string{"go.mod", "go.sum"} {
			if _, err := os.Stat(filepath.Join(dir, name, file)); err != nil {
				t.Errorf("part %s: %v", name, err)
			}
		}
		if About(name) == "" {
			t.Errorf("part %s has no description", name)
		}
	}
}

// A tiny part takes the whole way, twice concurrently.
func TestOnePartIsBuiltOnceByTwoBuilders(t *testing.T) {
	parts, cache := filepath.Dir(wrapper(t, small())), filepath.Join(t.TempDir(), "cache")
	var out [2]bytes.Buffer
	var dirs [2]string
	var errs [2]error
	var group sync.WaitGroup
	for i := range 2 {
		group.Go(func() {
			b := &Builder{parts: parts, cache: cache, progress: &out[i]}
			dirs[i], errs[i] = b.Build(t.Context(), "kube")
		})
	}
	group.Wait()
	if errs[0] != nil || errs[1] != nil || dirs[0] != dirs[1] {
		t.Fatalf("Build: %q, %q, want one folder and no errors", dirs, errs)
	}
	if text := out[0].String() + out[1].String(); strings.Count(text, "building kube") != 1 {
		t.Errorf("built more or less than once:\n%s", text)
	}
	for _, name := range []string{"kube", "kubectl"} {
		if _, err := os.Stat(filepath.Join(dirs[0], name)); err != nil {
			t.Error(err)
		}
	}
	left, _ := filepath.Glob(filepath.Join(cache, ".building-*"))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAFailedBuildShowsTheCompilersWordsAndLeavesNothing(t *testing.T) {
	files := small()
	files["main.go"] = "package main\n\nfunc main() { oops() }\n"
	b := &Builder{parts: filepath.Dir(wrapper(t, files)), cache: t.TempDir(), progress: &bytes.Buffer{}}
	_, err := b.Build(t.Context(), "kube")
	if err == nil || !strings.Contains(err.Error(), "undefined: oops") {
		t.Errorf("Build: %v, want the compiler's message", err)
	}
	if _, built, err := b.Where(t.Context(), "kube"); built || err != nil {
		t.Errorf("Where after a failed build: %v, %v", built, err)
	}
}

func TestTheLockWaitsAndGivesUpWithTheContext(t *testing.T) {
	var out bytes.Buffer
	b := &Builder{cache: t.TempDir(), progress: &out}
	unlock, err := b.lock(t.Context(), "kube")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.lock(ctx, "flux"); err == nil {
		t.Error("lock while locked: no error")
	}
	if !strings.Contains(out.String(), "flux: waiting") {
		t.Errorf("progress %q, want a line about waiting", out.String())
	}
	unlock()
	unlock, err = b.lock(t.Context(), "flux")
	if err != nil {
		t.Fatalf("lock after unlock: %v", err)
	}
	unlock()
}

func TestPackagesAreCountedAndMessagesKept(t *testing.T) {
	p := &packageCounter{}
	for _, chunk := range []string{"k8s.io/ap", "i\ngo: downloading x v1\n./main.go:3:2: undefined: oops\nfmt\n"} {
		if _, err := p.Write([]byte(chunk)); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.count.Load(); n != 2 || !slices.Equal(p.other, []string{"./main.go:3:2: undefined: oops"}) {
		t.Errorf("count %d, other %q, want 2 and the message", n, p.other)
	}
}
