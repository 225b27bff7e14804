// Package build makes the programs that test beds run, from the pinned modules in folder parts, once per content. Names
// lists the parts.
//
// A part is in CACHE/<part>-<hash>; the hash covers every input of the result. A folder of that name is
// complete: the build makes it elsewhere and renames it. One lock per cache runs one build, and so one
// big link, at a time, even if several processes need the same part.
package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Builder builds parts. Its methods are safe for concurrent use.
type Builder struct {
	parts    string // folder of the wrapper modules
	cache    string
	progress io.Writer
}

// New returns a builder that uses the folder parts found by Find from the
// working folder and the cache named by CacheDir, and writes progress lines to
// progress.
func New(progress io.Writer) (*Builder, error) {
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	parts, err := Find(wd)
	if err != nil {
		return nil, err
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	return &Builder{parts: parts, cache: cache, progress: progress}, nil
}

// Find returns the folder of the wrapper modules: parts or
// scripts/testbed/parts of the folder from or the nearest one above it.
func Find(from string) (string, error) {
	for dir := filepath.Clean(from); ; dir = filepath.Dir(dir) {
		for _, rel := range []string{"parts", "scripts/testbed/parts"} {
			parts := filepath.Join(dir, rel)
			if _, err := os.Stat(filepath.Join(parts, "kube", "go.mod")); err == nil {
				return parts, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no scripts/testbed/parts at or above %s: work inside the repository", from)
		}
	}
}

// CacheDir returns emco-testbed in XDG_CACHE_HOME, or otherwise in .cache of the home folder.
func CacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder: %w", err)
	}
	return filepath.Join(base, "emco-testbed"), nil
}

// Where returns the folder of a part for its current sources, and whether it is built.
func (b *Builder) Where(ctx context.Context, name string) (dir string, built bool, err error) {
	p, err := find(name)
	if err != nil {
		return "", false, err
	}
	hash, err := b.hash(ctx, p)
	if err != nil {
		return "", false, err
	}
	dir = filepath.Join(b.cache, name+"-"+hash)
	_, err = os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return dir, false, nil
	}
	return dir, err == nil, err
}

// Build returns the folder of a part, and builds the part first when the cache lacks it. A failed or
// cancelled build leaves nothing behind.
func (b *Builder) Build(ctx context.Context, name string) (string, error) {
	dir, built, err := b.Where(ctx, name)
	if err != nil || built {
		return dir, err
	}
	unlock, err := b.lock(ctx, name)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil // another process has built it meanwhile
	}
	p, err := find(name)
	if err != nil {
		return "", err
	}
	if err := b.make(ctx, p, dir); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return dir, nil
}

// make builds a part in a temporary folder and renames that to dir.
func (b *Builder) make(ctx context.Context, p partRecipe, dir string) error {
	tmp, err := os.MkdirTemp(b.cache, ".building-"+p.name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	for _, prog := range p.programs {
		if err := b.link(ctx, p, prog, tmp); err != nil {
			return err
		}
	}
	for _, c := range p.copies {
		if err := b.extract(ctx, p, c, tmp); err != nil {
			return err
		}
	}
	for _, f := range p.folders {
		if err := b.copyFolder(ctx, p, f, tmp); err != nil {
			return err
		}
	}
	return os.Rename(tmp, dir)
}

func (b *Builder) link(ctx context.Context, p partRecipe, prog binaryRecipe, out string) error {
	args := buildArgs(p, prog, filepath.Join(out, prog.name))
	if err := b.goBuild(ctx, p, prog.name, args); err != nil {
		return err
	}
	for _, name := range prog.links {
		if err := os.Symlink(prog.name, filepath.Join(out, name)); err != nil {
			return err
		}
	}
	return nil
}

// buildArgs returns the arguments of the go command for one program.
func buildArgs(p partRecipe, prog binaryRecipe, out string) []string {
	args := []string{"build", "-v", "-p", "2", "-trimpath", "-mod=readonly", "-ldflags", p.ldflags}
	if p.tags != "" {
		args = append(args, "-tags", p.tags)
	}
	return append(args, "-o", out, prog.pkg)
}

func (b *Builder) say(name, format string, args ...any) {
	fmt.Fprintf(b.progress, "testbed: %s: %s\n", name, fmt.Sprintf(format, args...))
}
