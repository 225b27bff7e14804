// Command release makes what a release consists of: images and archives from the commit at HEAD, and the changelog from
// the files of the work tree.
//
//	release images   [flags]   container images, as OCI layouts: one folder per program
//	release archives [flags]   archives with programs, completions, manual pages and bills of materials, and their checksums
//	release changelog          CHANGELOG.md from the fragments in docs/changelog
//
// The same commit gives the same bytes, with the same Go release and, for images, the same
// certificates on the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/emco-orchestrator/emco/scripts/release/changelog"
	"github.com/emco-orchestrator/emco/scripts/release/image"
	"github.com/emco-orchestrator/emco/scripts/release/source"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// options are the flags of all commands.
type options struct {
	repo, out, version string
	platforms          []v1.Platform
	only               []string // programs
	log                io.Writer
}

func run(ctx context.Context, args []string, log io.Writer) error {
	if len(args) == 0 {
		return errors.New("usage: release images|archives|changelog [flags]; -h lists the flags")
	}
	o := options{log: log}
	f := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	f.StringVar(&o.repo, "repo", "../..", "repository; its HEAD is released")
	f.StringVar(&o.out, "out", "../../bin/release", "folder for the results")
	f.StringVar(&o.version, "version", "", "version, such as v1.2.3 (default: the tag of the commit, else its date and id)")
	platforms := f.String("platforms", "", "platforms, separated by commas (default: all, for images this machine's architecture)")
	only := f.String("only", "", "programs, separated by commas (default: all)")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	var err error
	if o.platforms, err = parsePlatforms(*platforms); err != nil {
		return err
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	if args[0] == "changelog" {
		return writeChangelog(o.repo)
	}
	work, err := os.MkdirTemp("", "emco-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	tree, err := source.Export(ctx, o.repo, filepath.Join(work, "emco"), o.version)
	if err != nil {
		return err
	}
	switch args[0] {
	case "images":
		err = images(ctx, o, tree, work)
	case "archives":
		err = archives(ctx, o, tree, work)
	default:
		err = fmt.Errorf("%q is none of images, archives and changelog", args[0])
	}
	return err
}

func writeChangelog(repo string) error {
	page, err := changelog.Page(filepath.Join(repo, "docs", "changelog"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(repo, "CHANGELOG.md"), []byte(page), 0o644)
}

func parsePlatforms(list string) (all []v1.Platform, err error) {
	for text := range strings.SplitSeq(list, ",") {
		if text == "" {
			continue
		}
		p, err := v1.ParsePlatform(text)
		if err != nil {
			return nil, fmt.Errorf("-platforms: %w", err)
		}
		all = append(all, *p)
	}
	return all, nil
}

// dockerfile returns the name of a program's Dockerfile. emco-temporal takes the place of emco.
func dockerfile(program string) string {
	if program == "emco-temporal" {
		program = "emco"
	}
	return program + ".Dockerfile"
}

// images assembles the image of each program for each platform.
func images(ctx context.Context, o options, tree source.Tree, work string) error {
	if o.platforms == nil {
		o.platforms = []v1.Platform{{OS: "linux", Architecture: runtime.GOARCH}}
	}
	if o.only == nil {
		o.only = []string{"emco", "emco-temporal", "emcoctl", "monitor"}
	}
	for _, program := range o.only {
		var made []v1.Image
		for _, p := range o.platforms {
			stages := filepath.Join(work, program, p.Architecture)
			b := image.Builder{
				Context: tree.Dir, Files: tree.Files, Work: stages, Platform: p, Created: tree.Date, Log: o.log,
				Args: map[string]string{"PROGRAM": program, "VERSION": tree.Version, "COMMIT": tree.Commit},
			}
			img, err := b.Build(ctx, filepath.Join(tree.Dir, "deployments", "docker", dockerfile(program)))
			if err != nil {
				return err
			}
			made = append(made, img)
		}
		dir := filepath.Join(o.out, "images", program)
		if err := os.RemoveAll(dir); err != nil { // a layout only grows
			return err
		}
		if err := image.Write(dir, "emco/"+program+":"+tree.Version, made); err != nil {
			return err
		}
		fmt.Fprintln(o.log, "release: image", program, tree.Version, "in", dir)
	}
	return nil
}
