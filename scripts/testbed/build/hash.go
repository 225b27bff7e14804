package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// hash returns a short name for all inputs of a part: its sources, its recipe, the version of Go and
// the platform.
func (b *Builder) hash(ctx context.Context, p partRecipe) (string, error) {
	dir := filepath.Join(b.parts, p.name)
	toolchain, err := b.goOutput(ctx, dir, "env", "GOVERSION", "GOOS", "GOARCH")
	if err != nil {
		return "", err
	}
	return hashPart(dir, p, toolchain)
}

func hashPart(dir string, p partRecipe, toolchain string) (string, error) {
	files, err := sources(dir)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q\n", toolchain, p.copies, p.ldflags)
	if p.cgo || len(p.folders) > 0 {
		fmt.Fprintf(sum, "%t %q\n", p.cgo, p.folders)
	}
	for _, prog := range p.programs {
		fmt.Fprintf(sum, "%q %q\n", buildArgs(p, prog, prog.name), prog.links)
	}
	for _, file := range files {
		if err := addFile(sum, dir, file); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// sources returns the files of a wrapper module that a build reads, sorted.
func sources(dir string) ([]string, error) {
	mains, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	files := []string{"go.mod", "go.sum"}
	for _, m := range mains {
		files = append(files, filepath.Base(m))
	}
	slices.Sort(files)
	return files, nil
}

func addFile(w io.Writer, dir, name string) error {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s %d\n%s\n", name, len(data), data)
	return err
}
