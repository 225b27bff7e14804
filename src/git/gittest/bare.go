package gittest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/emco-orchestrator/emco/src/git/githttp"
)

// Bare is a bare repository on this machine, read and written by the git program.
type Bare struct{ Dir string }

// Init makes a bare repository that refuses what an orchestrator must not do.
func Init(_ context.Context, dir, branch string) (Bare, error) {
	return Bare{Dir: dir}, githttp.Init(dir, branch)
}

// Config sets an option of the repository, a key of a section and a name.
func (b Bare) Config(_ context.Context, key, value string) error {
	section, name, ok := strings.Cut(key, ".")
	if !ok || strings.Contains(name, ".") {
		return fmt.Errorf("key %q is not a section and a name", key)
	}
	f, err := os.OpenFile(filepath.Join(b.Dir, "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "[%s]\n\t%s = %q\n", section, name, value) // the last value counts
	return errors.Join(err, f.Close())
}

// Ref returns what a reference, such as "refs/heads/main", points at; "" if it does not exist.
func (b Bare) Ref(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(b.Dir, name))
	if err == nil {
		return strings.TrimSpace(string(text)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.EISDIR) {
		return "", err
	}
	packed, err := b.packedRefs()
	return packed[name], err
}

// Refs returns what all references point at, by name.
func (b Bare) Refs() (map[string]string, error) {
	refs, err := b.packedRefs()
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(filepath.Join(b.Dir, "refs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".lock") {
			return skipVanished(err)
		}
		text, err := os.ReadFile(path)
		if id := strings.TrimSpace(string(text)); err == nil && id != "" {
			refs[filepath.ToSlash(path[len(b.Dir)+1:])] = id
		}
		return skipVanished(err)
	})
	return refs, err
}

// skipVanished ignores what another process has removed meanwhile.
func skipVanished(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// packedRefs reads the references that git has packed.
func (b Bare) packedRefs() (map[string]string, error) {
	refs := map[string]string{}
	text, err := os.ReadFile(filepath.Join(b.Dir, "packed-refs"))
	for line := range strings.Lines(string(text)) {
		if id, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && line[0] != '#' {
			refs[name] = id
		}
	}
	return refs, skipVanished(err)
}

// UpdateRef moves a reference from one commit to another, as "git update-ref" does: under Git's own
// lock, and only from the given commit; "" is a reference that does not exist yet.
func (b Bare) UpdateRef(name, to, from string) error {
	path := filepath.Join(b.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("cannot lock ref %s: %w", name, err)
	}
	at, err := b.Ref(name)
	if err == nil && at != from {
		err = fmt.Errorf("cannot lock ref %s: it is at %q, not at %q", name, at, from)
	}
	if err == nil {
		_, err = lock.WriteString(to + "\n")
	}
	if err = errors.Join(err, lock.Close()); err == nil {
		err = os.Rename(path+".lock", path)
	}
	if err != nil {
		_ = os.Remove(path + ".lock")
	}
	return err
}

// Git runs the git program in the repository and returns its output without the
// last line break. It ends with ctx.
func (b Bare) Git(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = b.Dir
	cmd.Env = gitEnv()
	cmd.Stdin = strings.NewReader(stdin)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(said.Bytes()))
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// Tip returns the commit of a branch. It reads the reference without a process, so tests may
// call it often.
func (b Bare) Tip(branch string) (string, error) {
	ref := "refs/heads/" + branch
	text, err := os.ReadFile(filepath.Join(b.Dir, filepath.FromSlash(ref)))
	if err == nil {
		return strings.TrimSpace(string(text)), nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	packed, err := os.ReadFile(filepath.Join(b.Dir, "packed-refs"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	for line := range strings.Lines(string(packed)) {
		if commit, name, _ := strings.Cut(strings.TrimSpace(line), " "); name == ref {
			return commit, nil
		}
	}
	return "", fmt.Errorf("%s has no branch %s", b.Dir, branch)
}

// otherAuthor is the name in external commits. It identifies them in histories.
const otherAuthor = "somebody"

// gitEnv keeps the user's own settings out.
func gitEnv() []string {
	return append(os.Environ(), "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME="+otherAuthor, "GIT_AUTHOR_EMAIL="+otherAuthor+"@localhost",
		"GIT_COMMITTER_NAME="+otherAuthor, "GIT_COMMITTER_EMAIL="+otherAuthor+"@localhost")
}

// File is a file of an external commit. Mode is Git's, such as "100755"; empty means "100644". For
// a submodule (160000) Content is the commit's name.
type File struct{ Mode, Content string }

// CommitExternal commits files on a branch as another person, with git fast-import; a path with an
// empty Mode and empty Content is removed. It makes the branch if it does not exist, and tries
// again when the branch moves meanwhile.
func (b Bare) CommitExternal(ctx context.Context, branch string, files map[string]File) (commit string, err error) {
	ref := "refs/heads/" + branch
	for {
		tip, err := b.Ref(ref)
		if err != nil {
			return "", err
		}
		from := ""
		if tip != "" {
			from = "from " + tip + "\n"
		}
		if commit, err = b.Git(ctx, stream(ref, from, files), "fast-import", "--quiet"); err == nil {
			return commit, nil
		}
		if ctx.Err() != nil || !moved(err) {
			return "", err
		}
	}
}

// moved recognises fast-import's messages about a branch that someone else moved.
func moved(err error) bool {
	return strings.Contains(err.Error(), "Not updating") || strings.Contains(err.Error(), "cannot lock") || strings.Contains(err.Error(), "Unable to create")
}

func stream(ref, from string, files map[string]File) string {
	var s strings.Builder
	fmt.Fprintf(&s, "commit %s\nmark :1\ncommitter %s <%[2]s@localhost> %d +0000\ndata 7\nforeign\n%s", ref, otherAuthor, time.Now().Unix(), from)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f := files[path]
		switch {
		case f == File{}:
			fmt.Fprintf(&s, "D %s\n", path)
		case f.Mode == "160000":
			fmt.Fprintf(&s, "M 160000 %s %s\n", f.Content, path)
		default:
			mode := f.Mode
			if mode == "" {
				mode = "100644"
			}
			fmt.Fprintf(&s, "M %s inline %s\ndata %d\n%s\n", mode, path, len(f.Content), f.Content)
		}
	}
	s.WriteString("get-mark :1\ndone\n")
	return "feature done\n" + s.String()
}

// Fsck lets git look for anything wrong: broken or missing objects, bad names.
func (b Bare) Fsck(ctx context.Context) error {
	_, err := b.Git(ctx, "", "fsck", "--strict", "--full", "--no-dangling")
	return err
}

// Show returns the content of a file at a revision.
func (b Bare) Show(ctx context.Context, revision, path string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", "cat-file", "blob", revision+":"+path)
	cmd.Dir, cmd.Env = b.Dir, gitEnv()
	out, err := cmd.Output()
	return string(out), err
}

// ShowAll returns the content of files at a revision, by path, with one process. A file that is not there is an error.
func (b Bare) ShowAll(ctx context.Context, revision string, paths []string) (map[string]string, error) {
	var names strings.Builder
	for _, path := range paths {
		names.WriteString(revision + ":" + path + "\n")
	}
	cmd := exec.CommandContext(ctx, "git", "cat-file", "--batch")
	cmd.Dir, cmd.Env, cmd.Stdin = b.Dir, gitEnv(), strings.NewReader(names.String())
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	files := make(map[string]string, len(paths))
	for _, path := range paths {
		var id, kind string
		var size int
		head, rest, _ := bytes.Cut(out, []byte("\n"))
		if _, err := fmt.Sscanf(string(head), "%s %s %d", &id, &kind, &size); err != nil || kind != "blob" || len(rest) <= size {
			return nil, fmt.Errorf("%s at %s: git answers %q", path, revision, head)
		}
		files[path], out = string(rest[:size]), rest[size+1:]
	}
	return files, nil
}

// Hook installs a hook that runs a shell script; an empty script removes it.
func (b Bare) Hook(name, script string) error {
	path := filepath.Join(b.Dir, "hooks", name)
	if script == "" {
		err := os.Remove(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return WriteProgram(path, script)
}

// WriteProgram writes a shell script that can run at once. The kernel does not run a file that is open for
// writing, and a process that starts while the file is written has it open for a moment: none starts meanwhile.
func WriteProgram(path, script string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755)
}

// Reject makes the repository refuse every push with a message.
func (b Bare) Reject(message string) error {
	quoted := "'" + strings.ReplaceAll(message, "'", `'\''`) + "'"
	return b.Hook("pre-receive", "cat >/dev/null; echo "+quoted+" >&2; exit 1")
}

// Accept undoes Reject.
func (b Bare) Accept() error { return b.Hook("pre-receive", "") }
