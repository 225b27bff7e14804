// Package image assembles container images from Dockerfiles without a container engine.
//
// It builds for machines and tests that have Go but no engine, so it reads a part of the format:
// build stages, whose base image the host replaces, and one final stage on scratch. Instructions
// of that stage that it does not know are errors, not omissions.
package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// Builder assembles images.
type Builder struct {
	Context  string            // folder that COPY reads
	Files    []string          // what the context contains: slash-separated paths below Context
	Work     string            // folder for build stages
	Args     map[string]string // build arguments, such as VERSION
	Platform v1.Platform
	Created  time.Time // date of the image and of its files
	Log      io.Writer // output of RUN
}

// Read parses a Dockerfile.
func Read(file string) ([]instructions.Stage, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return stages, nil
}

// Sources returns what a Dockerfile copies from the context.
func Sources(stages []instructions.Stage) (paths []string) {
	for _, s := range stages {
		for _, c := range s.Commands {
			if c, ok := c.(*instructions.CopyCommand); ok && c.From == "" {
				paths = append(paths, c.SourcePaths...)
			}
		}
	}
	return paths
}

// Build assembles the image of a Dockerfile.
func (b Builder) Build(ctx context.Context, file string) (v1.Image, error) {
	parsed, err := Read(file)
	if err != nil {
		return nil, err
	}
	var last *stage
	done := map[string]*stage{}
	for i, p := range parsed {
		last = &stage{
			builder: b, root: filepath.Join(b.Work, fmt.Sprint(i)), dir: "/", scratch: p.BaseName == "scratch",
			others: done, owners: map[string]owner{}, config: v1.Config{},
		}
		if err := os.MkdirAll(last.root, 0o755); err != nil {
			return nil, err
		}
		for _, c := range p.Commands {
			if err := last.do(ctx, c); err != nil {
				return nil, fmt.Errorf("%s:%d: %s: %w", file, c.Location()[0].Start.Line, c.Name(), err)
			}
		}
		done[p.Name] = last
	}
	if last == nil || !last.scratch {
		return nil, fmt.Errorf("%s: the last stage must be FROM scratch, because no registry is read", file)
	}
	return last.image()
}

// stage is a stage of a Dockerfile while it is built.
type stage struct {
	builder Builder
	root    string // its files
	dir     string // its working directory
	scratch bool   // otherwise the host stands in for the base image
	others  map[string]*stage
	owners  map[string]owner // of files that are not root's, by path below root
	config  v1.Config
	env     []string // for commands and expansion: arguments and variables
}

type owner struct{ uid, gid int }

// do carries out one instruction.
func (s *stage) do(ctx context.Context, c instructions.Command) error {
	if e, ok := c.(instructions.SupportsSingleWordExpansion); ok {
		lex, env := shell.NewLex('\\'), shell.EnvsFromSlice(s.env)
		err := e.Expand(func(word string) (string, error) {
			text, _, err := lex.ProcessWord(word, env)
			return text, err
		})
		if err != nil {
			return err
		}
	}
	switch c := c.(type) {
	case *instructions.ArgCommand:
		s.arguments(c)
	case *instructions.EnvCommand:
		for _, v := range c.Env {
			s.env = append(s.env, v.Key+"="+v.Value)
			s.config.Env = append(s.config.Env, v.Key+"="+v.Value)
		}
	case *instructions.WorkdirCommand:
		s.dir = s.path(c.Path)
		s.config.WorkingDir = s.dir
		return os.MkdirAll(s.host(s.dir), 0o755)
	case *instructions.RunCommand:
		return s.run(ctx, c)
	case *instructions.CopyCommand:
		return s.copy(c)
	case *instructions.UserCommand:
		s.config.User = c.User
	case *instructions.EntrypointCommand:
		return exact(&s.config.Entrypoint, c.ShellDependantCmdLine)
	case *instructions.CmdCommand:
		return exact(&s.config.Cmd, c.ShellDependantCmdLine)
	case *instructions.ExposeCommand:
		return s.expose(c.Ports)
	case *instructions.VolumeCommand:
		s.config.Volumes = map[string]struct{}{}
		for _, v := range c.Volumes {
			s.config.Volumes[v] = struct{}{}
		}
	case *instructions.LabelCommand:
		if s.config.Labels == nil {
			s.config.Labels = map[string]string{}
		}
		for _, l := range c.Labels {
			s.config.Labels[l.Key] = l.Value
		}
	default:
		return errors.New("this builder does not know the instruction")
	}
	return nil
}

// exact sets a command line. An image on scratch has no shell, so only the form of a list works.
func exact(to *[]string, line instructions.ShellDependantCmdLine) error {
	if line.PrependShell {
		return errors.New(`the image has no shell; write the command as a list: ["/program", "argument"]`)
	}
	*to = line.CmdLine
	return nil
}

func (s *stage) arguments(c *instructions.ArgCommand) {
	for _, a := range c.Args {
		value, given := s.builder.Args[a.Key]
		switch {
		case a.Key == "TARGETOS":
			value = s.builder.Platform.OS
		case a.Key == "TARGETARCH":
			value = s.builder.Platform.Architecture
		case !given && a.Value != nil:
			value = *a.Value
		}
		s.env = append(s.env, a.Key+"="+value)
	}
}

func (s *stage) expose(ports []string) error {
	if s.config.ExposedPorts == nil {
		s.config.ExposedPorts = map[string]struct{}{}
	}
	for _, p := range ports {
		if !strings.Contains(p, "/") {
			p += "/tcp"
		}
		s.config.ExposedPorts[p] = struct{}{}
	}
	return nil
}

// path returns a path of the stage, from its root.
func (s *stage) path(p string) string {
	if !path.IsAbs(p) {
		p = path.Join(s.dir, p)
	}
	return path.Clean(p)
}

// host returns where a path of the stage is on this machine.
func (s *stage) host(p string) string { return filepath.Join(s.root, filepath.FromSlash(p)) }

// run runs a command of a build stage on this machine, in the stage's working directory.
func (s *stage) run(ctx context.Context, c *instructions.RunCommand) error {
	if s.scratch {
		return errors.New("an image on scratch has no shell")
	}
	args := c.CmdLine
	if c.PrependShell {
		args = append([]string{"/bin/sh", "-c"}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = s.host(s.dir), append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = s.builder.Log, s.builder.Log
	return cmd.Run()
}

// copy copies files from the context, or from another stage.
func (s *stage) copy(c *instructions.CopyCommand) error {
	if c.Chmod != "" || len(c.SourceContents) > 0 || len(c.ExcludePatterns) > 0 {
		return errors.New("this builder knows no flags but --from and --chown")
	}
	var by owner
	if c.Chown != "" {
		if _, err := fmt.Sscanf(c.Chown, "%d:%d", &by.uid, &by.gid); err != nil {
			return fmt.Errorf("--chown=%s: give numbers, as in 65532:65532", c.Chown)
		}
	}
	into := len(c.SourcePaths) > 1 || strings.HasSuffix(c.DestPath, "/")
	for _, name := range c.SourcePaths {
		from, err := s.source(c.From, name)
		if err != nil {
			return err
		}
		to := s.path(c.DestPath)
		if into && !from.dir {
			to = path.Join(to, path.Base(name))
		}
		if err := s.place(from, to, by); err != nil {
			return err
		}
	}
	return nil
}

// source is a file, or a folder with the paths of its files and folders below it.
type source struct {
	host  string
	dir   bool
	below []string
}

func (s *stage) source(from, name string) (source, error) {
	if from == "" {
		return s.fromContext(path.Clean(name))
	}
	other := s.others[from]
	if other == nil {
		return source{}, fmt.Errorf("--from=%s names no stage above", from)
	}
	src := source{host: other.host(path.Clean(name))}
	info, err := os.Stat(src.host)
	if errors.Is(err, os.ErrNotExist) && !other.scratch { // then it is a file of the base image
		src.host = filepath.FromSlash(path.Clean(name))
		info, err = os.Stat(src.host)
	}
	if err != nil {
		return source{}, err
	}
	if src.dir = info.IsDir(); src.dir {
		err = filepath.WalkDir(src.host, func(p string, _ os.DirEntry, err error) error {
			if rel, _ := filepath.Rel(src.host, p); err == nil && rel != "." {
				src.below = append(src.below, filepath.ToSlash(rel))
			}
			return err
		})
	}
	return src, err
}

func (s *stage) fromContext(name string) (source, error) {
	src := source{host: filepath.Join(s.builder.Context, filepath.FromSlash(name))}
	if slices.Contains(s.builder.Files, name) {
		return src, nil
	}
	for _, f := range s.builder.Files {
		if rel, ok := strings.CutPrefix(f, name+"/"); ok || name == "." {
			if name == "." {
				rel = f
			}
			src.below = append(src.below, rel)
		}
	}
	if src.dir = len(src.below) > 0; !src.dir {
		return src, fmt.Errorf("%s is not in the context; a clone contains only files that git tracks", name)
	}
	return src, nil
}

// place puts a source into the stage. Folders above it are root's.
func (s *stage) place(from source, to string, by owner) error {
	if err := os.MkdirAll(s.host(path.Dir(to)), 0o755); err != nil {
		return err
	}
	if !from.dir {
		return s.file(from.host, to, by)
	}
	if err := os.MkdirAll(s.host(to), 0o755); err != nil {
		return err
	}
	s.own(to, by)
	for _, rel := range from.below {
		host, at := filepath.Join(from.host, filepath.FromSlash(rel)), path.Join(to, rel)
		info, err := os.Lstat(host)
		switch {
		case err != nil:
		case info.IsDir():
			err = os.MkdirAll(s.host(at), 0o755)
			s.own(at, by)
		default:
			if err = os.MkdirAll(s.host(path.Dir(at)), 0o755); err == nil {
				err = s.file(host, at, by)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) own(p string, by owner) { s.owners[strings.TrimPrefix(p, "/")] = by }

// file copies one file, with the right to execute it.
func (s *stage) file(host, to string, by owner) error {
	in, err := os.Open(host)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", host)
	}
	mode := os.FileMode(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	out, err := os.OpenFile(s.host(to), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	s.own(to, by)
	return errors.Join(err, out.Close(), os.Chmod(s.host(to), mode))
}
