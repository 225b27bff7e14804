package main

import (
	"bufio"
	"context"
	"crypto/rand"
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

	"github.com/emco-orchestrator/emco/src/git/gittest"
)

const (
	repo     = "fleet"
	user     = "emco"
	clusters = "alpha,bravo,charlie"
	pause    = 200 * time.Millisecond // between two looks at the status
	patience = 30 * time.Second
	endLimit = 20 * time.Second // for the end of a program after SIGTERM
)

// demoStage is the environment of the demonstration: a folder, a Git server, emco, and simulated clusters.
type demoStage struct {
	dir       string // everything that the demonstration writes
	bin       string // the programs
	examples  string // a copy of the examples in dir, which the story edits
	token     string // of the Git user
	began     time.Time
	gitServer *gittest.Server
	children  []*exec.Cmd
	url       string // of emco
	firstTree string // the Git tree of the clusters' folders at the first revision
}

// newStage serves an empty repository, copies and packs the examples, and starts emco and the clusters.
func newStage(ctx context.Context, dir, bin, examples string) (*demoStage, error) {
	s := &demoStage{dir: dir, examples: filepath.Join(dir, "examples"), token: rand.Text(), began: time.Now()}
	var err error
	if s.bin, err = filepath.Abs(bin); err != nil {
		return nil, err
	}
	if s.gitServer, err = gittest.Serve(filepath.Join(dir, "git"), gittest.User{Name: user, Token: s.token, Write: true}); err != nil {
		return nil, err
	}
	if _, err := s.gitServer.Seed(ctx, repo, "main"); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := os.CopyFS(s.examples, os.DirFS(examples)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := errors.Join(s.pack(ctx), s.values(), s.startEmco(ctx), s.startClusters(ctx)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	fmt.Printf("emco serves %s, the Git server %s, and the clusters are simulated.\n", s.url, s.gitServer.URL(repo))
	return s, nil
}

// pack packs charts and profiles in EMCO's format: gzip-compressed tars.
func (s *demoStage) pack(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.examples, "pack.sh"), filepath.Join(s.dir, "packages"), "web", "cache")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pack.sh: %w: %s", err, out)
	}
	return nil
}

// values fills in the values of the example's templates.
func (s *demoStage) values() error {
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
`, s.gitServer.URL(repo), user, s.token, filepath.Join(s.dir, "packages"))
	return os.WriteFile(filepath.Join(s.examples, "01-git-fleet", "values.yaml"), []byte(text), 0o600)
}

// startEmco runs emco on a free port and waits until it serves.
func (s *demoStage) startEmco(ctx context.Context) error {
	cmd := s.child("emco", "-data", filepath.Join(s.dir, "data"), "-http.address", "127.0.0.1:0", "-grpc.address", "", "-status.interval", "1s")
	logs, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := s.start(cmd); err != nil {
		return err
	}
	address, err := served(ctx, logs)
	s.url = "http://" + address
	return err
}

// startClusters runs the clusters: they pull, apply and report to their own branches.
func (s *demoStage) startClusters(context.Context) error {
	cmd := s.child("simfleet", "run", "-provider", "edge", "-names", clusters, "-git.url", s.gitServer.URL(repo), "-git.user", user,
		"-interval", "1s", "-fetch.every", "500ms", "-apply", "500ms", "-status.interval", "1s", "-progress", "0")
	cmd.Env = append(os.Environ(), "GIT_TOKEN="+s.token)
	return s.start(cmd)
}

// child prepares a program in its own process group: Ctrl-C reaches only this process, which ends the
// children in order.
func (s *demoStage) child(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (s *demoStage) start(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s (was it built? make build): %w", filepath.Base(cmd.Path), err)
	}
	s.children = append(s.children, cmd)
	return nil
}

// served reads emco's log until it finds the address, and drains the rest.
func served(ctx context.Context, logs io.Reader) (string, error) {
	found := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(logs)
		for lines.Scan() {
			var line struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "emco serves" {
				found <- line.Address
			}
		}
		close(found)
	}()
	select {
	case address, ok := <-found:
		if !ok {
			return "", errors.New("emco did not start")
		}
		return address, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// close ends the clusters, emco and the Git server. The kernel kills a program that ignores SIGTERM for
// too long.
func (s *demoStage) close() error {
	var errs []error
	for i := len(s.children) - 1; i >= 0; i-- {
		cmd := s.children[i]
		late := time.AfterFunc(endLimit, func() { _ = cmd.Process.Kill() }) // it may have ended already
		errs = append(errs, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait() // simfleet exits with 3 if a cluster is behind, which is no fault here
		late.Stop()
	}
	return errors.Join(append(errs, s.gitServer.Close())...)
}

// emcoctl runs the CLI in the folder of the example and returns its exit code.
func (s *demoStage) emcoctl(ctx context.Context, out io.Writer, args ...string) (int, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "emcoctl"), args...)
	cmd.Dir = filepath.Join(s.examples, "01-git-fleet")
	cmd.Env = append(os.Environ(), "EMCO_URL="+s.url, "HOME="+s.dir)
	cmd.Stdout, cmd.Stderr = out, os.Stdout
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return exitOK, err
}

func (s *demoStage) gitOutput(ctx context.Context, args ...string) (string, error) {
	dir := filepath.Join(s.dir, "git", repo+".git")
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("git %s: %w", args[0], err)
	}
	return string(out), err
}

// revParse returns the object of each name.
func (s *demoStage) revParse(ctx context.Context, names ...string) (objects []string, err error) {
	for _, name := range names {
		out, err := s.gitOutput(ctx, "rev-parse", "--verify", name)
		if err != nil {
			return nil, err
		}
		objects = append(objects, strings.TrimSpace(out))
	}
	return objects, nil
}

// cloneURL is the address of the repository with the credential of this demonstration.
func (s *demoStage) cloneURL() string {
	return strings.Replace(s.gitServer.URL(repo), "://", "://"+user+":"+s.token+"@", 1)
}

// eventually retries a check until it succeeds, at most for patience.
func (s *demoStage) eventually(check func(context.Context) error) func(context.Context) error {
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
