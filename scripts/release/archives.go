package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/emco-orchestrator/emco/scripts/release/archive"
	"github.com/emco-orchestrator/emco/scripts/release/sbom"
	"github.com/emco-orchestrator/emco/scripts/release/source"
)

// The platforms of a release.
var releasePlatforms = []v1.Platform{
	{OS: "linux", Architecture: "amd64"},
	{OS: "linux", Architecture: "arm64"},
	{OS: "darwin", Architecture: "amd64"},
	{OS: "darwin", Architecture: "arm64"},
	{OS: "windows", Architecture: "amd64"},
	{OS: "windows", Architecture: "arm64"},
}

// bundle is the content of an archive. emco-temporal has one of its own, so that the bill of materials of
// the others names no module of Temporal's client.
type bundle struct {
	name     string // before version and platform
	programs []string
}

// bundlesFor lists the archives of a platform. The control plane locks files and groups processes
// as Unix does, so Windows has the command line alone.
func bundlesFor(p v1.Platform) []bundle {
	if p.OS == "windows" {
		return []bundle{{"emco", []string{"emcoctl"}}}
	}
	return []bundle{
		{"emco", []string{"emco", "emcoctl", "monitor", "simfleet"}},
		{"emco-temporal", []string{"emco-temporal"}},
	}
}

// releaseBuild makes the archives of one release.
type releaseBuild struct {
	options
	tree source.Tree
	work string
}

// archives writes the archives of each platform, each with its bill of materials, and the checksums.
func archives(ctx context.Context, o options, tree source.Tree, work string) error {
	if o.platforms == nil {
		o.platforms = releasePlatforms
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	b := releaseBuild{options: o, tree: tree, work: work}
	docs := map[string][]archive.File{} // by the name of the bundle
	for _, bundle := range b.bundles(v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}) {
		files, err := b.documentation(ctx, bundle)
		if err != nil {
			return err
		}
		docs[bundle.name] = files
	}
	var made []string
	for _, p := range o.platforms {
		for _, bundle := range b.bundles(p) {
			names, err := b.pack(ctx, bundle, p, docs[bundle.name])
			if err != nil {
				return err
			}
			made = append(made, names...)
		}
	}
	return writeChecksums(filepath.Join(o.out, "checksums.txt"), made)
}

// bundles returns the archives of a platform with the programs that the flags name.
func (b releaseBuild) bundles(p v1.Platform) []bundle {
	all := bundlesFor(p)
	if b.only == nil {
		return all
	}
	for i := range all {
		all[i].programs = slices.DeleteFunc(all[i].programs, func(program string) bool { return !slices.Contains(b.only, program) })
	}
	return slices.DeleteFunc(all, func(one bundle) bool { return len(one.programs) == 0 })
}

// pack returns the files that it wrote: the archive of a bundle, and its bill of materials.
func (b releaseBuild) pack(ctx context.Context, bundle bundle, p v1.Platform, docs []archive.File) ([]string, error) {
	name := fmt.Sprintf("%s_%s_%s_%s", bundle.name, b.tree.Version, p.OS, p.Architecture)
	files := slices.Clone(docs)
	var built []string
	for _, program := range bundle.programs {
		file, err := b.build(ctx, program, p)
		if err != nil {
			return nil, err
		}
		built = append(built, file)
		files = append(files, archive.File{Name: "bin/" + filepath.Base(file), Path: file, Exec: true})
	}
	bill := filepath.Join(b.out, name+".cdx.json")
	if err := b.bill(bill, name, built); err != nil {
		return nil, err
	}
	packed := filepath.Join(b.out, name+".tar.gz")
	if p.OS == "windows" {
		packed = filepath.Join(b.out, name+".zip")
	}
	if err := archive.Write(packed, name, files, b.tree.Date); err != nil {
		return nil, err
	}
	fmt.Fprintln(b.log, "release: wrote", packed)
	return []string{packed, bill}, nil
}

// build builds a program once for each platform.
func (b releaseBuild) build(ctx context.Context, program string, p v1.Platform) (string, error) {
	rel := filepath.Join("out", p.OS+"-"+p.Architecture, program)
	if p.OS == "windows" {
		rel += ".exe"
	}
	file := filepath.Join(b.tree.Dir, rel)
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	cmd := exec.CommandContext(ctx, "scripts/release/build.sh", program, rel)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.tree.Dir, b.log, b.log
	cmd.Env = append(os.Environ(), "VERSION="+b.tree.Version, "COMMIT="+b.tree.Commit, "GOOS="+p.OS, "GOARCH="+p.Architecture)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build %s for %s: %w", program, p, err)
	}
	return file, nil
}

func (b releaseBuild) bill(file, name string, programs []string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(sbom.Write(out, sbom.Release{Name: name, Version: b.tree.Version, Commit: b.tree.Commit, Date: b.tree.Date, Programs: programs}), out.Close())
}

// documentation makes what is equal on all platforms: licence, completions and manual pages. The
// programs of this machine write them.
func (b releaseBuild) documentation(ctx context.Context, bundle bundle) ([]archive.File, error) {
	files := []archive.File{{Name: "LICENSE", Path: filepath.Join(b.tree.Dir, "LICENSE")}}
	here := v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}
	man, shells := filepath.Join(b.work, bundle.name, "man"), filepath.Join(b.work, bundle.name, "completions")
	if err := errors.Join(os.MkdirAll(man, 0o755), os.MkdirAll(shells, 0o755)); err != nil {
		return nil, err
	}
	for _, program := range bundle.programs {
		file, err := b.build(ctx, program, here)
		if err != nil {
			return nil, err
		}
		if program == "emcoctl" {
			err = errors.Join(b.commandManuals(ctx, man), completions(ctx, file, shells))
		} else {
			err = b.manual(ctx, program, file, man)
		}
		if err != nil {
			return nil, err
		}
	}
	for dir, to := range map[string]string{man: "man/man1", shells: "completions", filepath.Join(b.tree.Dir, "deployments", "systemd"): "systemd"} {
		below, err := archive.Below(dir, to)
		if err != nil {
			return nil, err
		}
		files = append(files, below...)
	}
	return files, nil
}

// commandManuals has emcoctl's module write the manual pages of its commands.
func (b releaseBuild) commandManuals(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "run", "./internal/manpages", dir, b.tree.Version, b.tree.Date.Format(time.DateOnly))
	cmd.Dir, cmd.Env, cmd.Stderr = filepath.Join(b.tree.Dir, "src", "emcoctl"), append(os.Environ(), "GOWORK=off"), b.log
	return cmd.Run()
}

// summaries are the lines below NAME.
var summaries = map[string]string{
	"emco":          "the multi-cluster orchestrator",
	"emco-temporal": "the multi-cluster orchestrator with a client of Temporal",
	"monitor":       "the agent that reports from clusters that pull from Git",
	"simfleet":      "simulates many clusters that pull from Git",
}

// manual makes a manual page of a program's help.
func (b releaseBuild) manual(ctx context.Context, program, file, dir string) error {
	cmd := exec.CommandContext(ctx, file, "-help")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // defaults do not come from this machine's variables
	help, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s -help: %w\n%s", program, err, help)
	}
	var page bytes.Buffer
	fmt.Fprintf(&page, "%% \"%s\" \"1\" \"%s\" \"%s %s\" \"EMCO\"\n# NAME\n%s - %s\n\n# DESCRIPTION\n", strings.ToUpper(program), b.tree.Date.Format("Jan 2006"), program, b.tree.Version, program, summaries[program])
	for line := range strings.SplitSeq(strings.TrimRight(string(help), "\n"), "\n") {
		page.WriteString("    " + line + "\n")
	}
	return os.WriteFile(filepath.Join(dir, program+".1"), md2man.Render(page.Bytes()), 0o644)
}

// completions has emcoctl write its completions.
func completions(ctx context.Context, emcoctl, dir string) error {
	for shell, name := range map[string]string{"bash": "emcoctl.bash", "zsh": "_emcoctl", "fish": "emcoctl.fish", "powershell": "emcoctl.ps1"} {
		out, err := exec.CommandContext(ctx, emcoctl, "completion", shell).Output()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), out, 0o644)
		}
		if err != nil {
			return fmt.Errorf("emcoctl completion %s: %w", shell, err)
		}
	}
	return nil
}

// writeChecksums writes a file for sha256sum -c.
func writeChecksums(name string, files []string) error {
	slices.Sort(files)
	var text strings.Builder
	for _, f := range files {
		in, err := os.Open(f)
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, in)
		if err = errors.Join(err, in.Close()); err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sum.Sum(nil), filepath.Base(f))
	}
	return os.WriteFile(name, []byte(text.String()), 0o644)
}
