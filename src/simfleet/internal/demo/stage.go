package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/emco-orchestrator/emco/examples"
)

const (
	clusters = "alpha,bravo,charlie"
	pause    = 200 * time.Millisecond // between two looks at the status
	patience = 30 * time.Second
	endLimit = 20 * time.Second // for the end of a program after SIGTERM
)

// stage is the environment of the demonstration: a folder, a Git server, emco, and simulated clusters.
type stage struct {
	dir       string // everything that the demonstration writes
	programs  programs
	examples  string // a copy of the examples in dir, which the story edits
	began     time.Time
	out       io.Writer
	git       *gitServer
	children  []*exec.Cmd
	url       string // of emco
	firstTree string // the Git tree of the clusters' folders at the first revision
}

// newStage serves a repository, copies and packs the examples, and starts emco and the clusters.
func newStage(ctx context.Context, o Options, dir string, p programs) (*stage, error) {
	s := &stage{dir: dir, programs: p, examples: filepath.Join(dir, "examples"), began: time.Now(), out: o.Out}
	var err error
	if s.git, err = serveGit(ctx, filepath.Join(dir, "git")); err != nil {
		return nil, err
	}
	for _, do := range []func(context.Context) error{s.copyExamples, s.pack, s.startEmco, s.startClusters} {
		if err := do(ctx); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	fmt.Fprintf(s.out, "emco serves %s, the Git server %s, and the clusters are simulated.\n", s.url, s.git.url())
	return s, nil
}

// copyExamples copies the examples, and fills in the values of their templates.
func (s *stage) copyExamples(context.Context) error {
	if err := os.CopyFS(s.examples, examples.Demo); err != nil {
		return err
	}
	if err := os.Chmod(s.packer(), 0o700); err != nil {
		return err
	}
	text := fmt.Sprintf(`GitURL: %s
GitUser: %s
GitToken: %s
Packages: %s
Clusters:
- {Name: alpha, Label: store}
- {Name: bravo, Label: store}
- {Name: charlie, Label: depot}
Apps:
- Name: web
- Name: cache
`, s.git.url(), user, s.git.token, filepath.Join(s.dir, "packages"))
	return os.WriteFile(filepath.Join(s.story(), "values.yaml"), []byte(text), 0o600)
}

// story is the folder of the documents.
func (s *stage) story() string { return filepath.Join(s.examples, "01-git-fleet") }

// packer is the program that packs charts and profiles.
func (s *stage) packer() string { return filepath.Join(s.examples, "pack.sh") }

// pack packs charts and profiles in EMCO's format: gzip-compressed tars.
func (s *stage) pack(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, s.packer(), filepath.Join(s.dir, "packages"), "web", "cache")
	cmd.Env = environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pack.sh: %w: %s", err, out)
	}
	return nil
}

// startEmco runs emco on a free port and waits until it serves. Its log is in the folder.
func (s *stage) startEmco(ctx context.Context) error {
	cmd := s.child(s.programs.emco, "-data", filepath.Join(s.dir, "data"), "-http.address", "127.0.0.1:0", "-grpc.address", "", "-status.interval", "1s")
	logs, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(s.dir, "emco.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := s.start(cmd); err != nil {
		return errors.Join(err, file.Close())
	}
	address, err := served(ctx, logs, file)
	s.url = "http://" + address
	return err
}

// startClusters runs the clusters: they pull, apply and report to their own branches.
func (s *stage) startClusters(context.Context) error {
	cmd := s.child(s.programs.simfleet, "run", "-provider", "edge", "-names", clusters, "-git.url", s.git.url(), "-git.user", user,
		"-interval", "1s", "-fetch.every", "500ms", "-apply", "500ms", "-status.interval", "1s", "-progress", "0")
	cmd.Env = environment("GIT_TOKEN=" + s.git.token)
	return s.start(cmd)
}

// child prepares a program in its own process group: Ctrl-C reaches only this process, which ends the
// children in order.
func (s *stage) child(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (s *stage) start(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	s.children = append(s.children, cmd)
	return nil
}

// served copies emco's log to a file until it ends, and returns the address as soon as a line has it.
func served(ctx context.Context, logs io.Reader, file io.WriteCloser) (string, error) {
	found, ended := make(chan string, 1), make(chan string, 1)
	go func() {
		defer file.Close()
		var last string
		lines := bufio.NewScanner(io.TeeReader(logs, file))
		for lines.Scan() {
			last = lines.Text()
			var line struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "emco serves" {
				found <- line.Address
			}
		}
		_, _ = io.Copy(file, logs) // what follows a line that is too long
		ended <- last
	}()
	select {
	case address := <-found:
		return address, nil
	case last := <-ended:
		return "", fmt.Errorf("emco did not start; the last line of its log: %s", last)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// close ends the clusters, emco and the Git server. A program that ignores SIGTERM for endLimit is killed.
func (s *stage) close() error {
	var errs []error
	for i := len(s.children) - 1; i >= 0; i-- {
		cmd := s.children[i]
		late := time.AfterFunc(endLimit, func() { _ = cmd.Process.Kill() }) // it may have ended already
		errs = append(errs, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait() // simfleet exits with 3 if a cluster is behind, which is no fault here
		late.Stop()
	}
	return errors.Join(append(errs, s.git.close())...)
}

// emcoctl runs the CLI in the folder of the example and returns its exit code.
func (s *stage) emcoctl(ctx context.Context, out io.Writer, args ...string) (int, error) {
	cmd := exec.CommandContext(ctx, s.programs.emcoctl, args...)
	cmd.Dir = s.story()
	cmd.Env = environment("EMCO_URL="+s.url, "HOME="+s.dir)
	cmd.Stdout, cmd.Stderr = out, s.out
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return exitOK, err
}

func (s *stage) gitOutput(ctx context.Context, args ...string) (string, error) {
	out, err := s.git.command(ctx, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("git %s: %w", args[0], err)
	}
	return string(out), err
}

// revParse returns the object of each name.
func (s *stage) revParse(ctx context.Context, names ...string) (objects []string, err error) {
	for _, name := range names {
		out, err := s.gitOutput(ctx, "rev-parse", "--verify", name)
		if err != nil {
			return nil, err
		}
		objects = append(objects, strings.TrimSpace(out))
	}
	return objects, nil
}

// eventually retries a check until it succeeds, at most for patience.
func (s *stage) eventually(check func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		late := time.After(patience)
		for {
			err := check(ctx)
			if err == nil {
				return nil
			}
			select {
			case <-tick.C:
			case <-late:
				return err
			case <-ctx.Done():
				return errors.Join(err, ctx.Err())
			}
		}
	}
}
