package build

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// reportEvery is the time between two progress lines of one build.
const reportEvery = 15 * time.Second

// command returns a go command that works in a wrapper module. It keeps the caller's settings of
// proxies, caches and flags. Its children end with it when ctx ends.
func command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func (b *Builder) goOutput(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := command(ctx, dir, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s in %s: %w: %s", strings.Join(args, " "), dir, err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

// goBuild runs one go build and reports its progress.
func (b *Builder) goBuild(ctx context.Context, p partRecipe, prog string, args []string) error {
	b.say(p.name, "building %s (minutes when the build cache is cold)", prog)
	begin := time.Now()
	cmd := command(ctx, filepath.Join(b.parts, p.name), args...)
	if p.cgo {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	seen := &packageCounter{}
	cmd.Stderr = seen
	stop := b.report(p.name, prog, seen)
	err := cmd.Run()
	stop()
	if err != nil {
		return fmt.Errorf("go build %s: %w: %s", prog, err, seen.rest())
	}
	b.say(p.name, "%s is built, %d packages compiled in %.0f s", prog, seen.count.Load(), time.Since(begin).Seconds())
	return nil
}

// report writes a progress line periodically until stop is called, which waits for the reporter.
func (b *Builder) report(name, prog string, seen *packageCounter) (stop func()) {
	begin := time.Now()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(reportEvery)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				b.say(name, "%s, %d packages compiled, %.0f s", prog, seen.count.Load(), time.Since(begin).Seconds())
			}
		}
	}()
	return func() { close(quit); <-done }
}

// packageCounter counts the package names in the output of go build -v and keeps the other lines, which are
// messages.
type packageCounter struct {
	count atomic.Int64
	line  []byte
	other []string
}

// One goroutine of os/exec calls Write.
func (p *packageCounter) Write(data []byte) (int, error) {
	p.line = append(p.line, data...)
	for {
		line, after, ok := bytes.Cut(p.line, []byte("\n"))
		if !ok {
			return len(data), nil
		}
		p.add(string(line))
		p.line = slices.Clone(after)
	}
}

func (p *packageCounter) add(line string) {
	switch {
	case strings.HasPrefix(line, "go: downloading"):
	case strings.ContainsAny(line, " \t"):
		p.other = append(p.other, line)
	default:
		p.count.Add(1)
	}
}

func (p *packageCounter) rest() string {
	return strings.Join(append(p.other, string(p.line)), "\n")
}

// extract copies files of a pinned module to the output folder.
func (b *Builder) extract(ctx context.Context, p partRecipe, e textExtract, out string) error {
	module, err := b.moduleDir(ctx, p, e.module)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(out, e.name))
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	for _, pattern := range e.files {
		if err := join(w, filepath.Join(module, pattern)); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// copyFolder copies a folder of a pinned module to the output folder.
func (b *Builder) copyFolder(ctx context.Context, p partRecipe, f folderCopy, out string) error {
	module, err := b.moduleDir(ctx, p, f.module)
	if err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(out, f.name), os.DirFS(filepath.Join(module, f.name)))
}

// moduleDir returns the go command's folder of a module in the version that a part pins.
func (b *Builder) moduleDir(ctx context.Context, p partRecipe, module string) (string, error) {
	return b.goOutput(ctx, filepath.Join(b.parts, p.name), "list", "-m", "-f", "{{.Dir}}", module)
}

// join writes the files that match a pattern as YAML documents.
func join(w io.Writer, pattern string) error {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no file %s: the module no longer contains it", pattern)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "---\n%s\n", data); err != nil {
			return err
		}
	}
	return nil
}
