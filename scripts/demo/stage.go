package main

import (
	"bufio"
	"bytes"
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

	"github.com/emco-orchestrator/emco/src/git/gittest"
)

const (
	repo  = "fleet"
	group = "projects/shop/composite-apps/till/v1/deployment-intent-groups/autumn"
	user  = "emco"
)

// demoStage is the environment of the demonstration: a Git server, emco, and a folder.
type demoStage struct {
	dir, bin, examples string
	began              time.Time
	git                *gittest.Server
	emco               *exec.Cmd
	url                string
}

// newStage serves an empty repository over HTTP, packs the charts and starts emco.
func newStage(ctx context.Context, dir, bin, examples string) (*demoStage, error) {
	s := &demoStage{dir: dir, bin: bin, examples: examples, began: time.Now()}
	token := fmt.Sprintf("demo-%d", os.Getpid())
	var err error
	if s.git, err = gittest.Serve(filepath.Join(dir, "git"), gittest.User{Name: user, Token: token, Write: true}); err != nil {
		return nil, err
	}
	if _, err := s.git.Seed(ctx, repo, "main"); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := errors.Join(s.packages(ctx), s.values(token), s.start(ctx)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// packages packs charts and profiles in EMCO's format: gzip-compressed tars.
func (s *demoStage) packages(ctx context.Context) error {
	out := filepath.Join(s.dir, "packages")
	return command(ctx, filepath.Join(s.examples, "pack.sh"), out, "web", "cache").Run()
}

// values writes the values of the examples' templates.
func (s *demoStage) values(token string) error {
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
`, s.git.URL(repo), user, token, filepath.Join(s.dir, "packages"))
	return os.WriteFile(filepath.Join(s.dir, "values.yaml"), []byte(text), 0o600)
}

// start runs emco on a free port and waits until it is ready.
func (s *demoStage) start(ctx context.Context) error {
	s.emco = exec.CommandContext(ctx, filepath.Join(s.bin, "emco"), "-data", filepath.Join(s.dir, "data"), "-http.address", "127.0.0.1:0", "-grpc.address", "")
	s.emco.Cancel = func() error { return s.emco.Process.Signal(syscall.SIGTERM) }
	s.emco.WaitDelay = 20 * time.Second
	logs, err := s.emco.StderrPipe()
	if err != nil {
		return err
	}
	if err := s.emco.Start(); err != nil {
		return err
	}
	address, err := served(logs)
	if err != nil {
		return err
	}
	s.url = "http://" + address
	fmt.Printf("emco serves %s, the Git server %s\n", s.url, s.git.URL(repo))
	return nil
}

// served reads emco's log until it finds the address, and drains the rest.
func served(logs io.Reader) (string, error) {
	lines := bufio.NewScanner(logs)
	var seen strings.Builder
	for lines.Scan() {
		var line struct{ Msg, Address string }
		_ = json.Unmarshal(lines.Bytes(), &line)
		fmt.Fprintln(&seen, lines.Text())
		if line.Msg == "emco serves" {
			go func() { _, _ = io.Copy(io.Discard, logs) }()
			return line.Address, nil
		}
	}
	return "", fmt.Errorf("emco did not start:\n%s", seen.String())
}

func (s *demoStage) close() error {
	var errs []error
	if s.emco != nil && s.emco.Process != nil {
		errs = append(errs, s.emco.Process.Signal(syscall.SIGTERM), s.emco.Wait())
	}
	return errors.Join(append(errs, s.git.Close())...)
}

// emcoctl runs the CLI with human output against the demonstration's emco.
func (s *demoStage) emcoctl(ctx context.Context, out io.Writer, args ...string) error {
	cmd := command(ctx, filepath.Join(s.bin, "emcoctl"), append(args, "--server", s.url)...)
	cmd.Stdout = out
	return cmd.Run()
}

// ctl runs emcoctl on the examples' documents.
func (s *demoStage) ctl(args ...string) func(context.Context) error {
	return s.plain(append(args, "-v", filepath.Join(s.dir, "values.yaml"), "--output", "human")...)
}

// plain runs emcoctl.
func (s *demoStage) plain(args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		fmt.Println("$ emcoctl", strings.Join(short(s.dir, args), " "))
		return s.emcoctl(ctx, os.Stdout, args...)
	}
}

// wait waits until the deployment is in a state, with progress.
func (s *demoStage) wait(state string) func(context.Context) error {
	return s.plain("wait", group, "--for="+state, "--timeout=60s")
}

// again applies everything a second time: no line may contain created or configured.
func (s *demoStage) again(args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		before, err := s.head(ctx)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		args := append(append([]string{"apply"}, args...), "-v", filepath.Join(s.dir, "values.yaml"), "--output", "human")
		if err := s.emcoctl(ctx, io.MultiWriter(&out, os.Stdout), args...); err != nil {
			return err
		}
		after, err := s.head(ctx)
		if strings.Contains(out.String(), "created") || strings.Contains(out.String(), "configured") || before != after {
			return errors.New("something changed")
		}
		return err
	}
}

func (s *demoStage) gitDir() string { return filepath.Join(s.dir, "git", repo+".git") }

func (s *demoStage) tree(ctx context.Context) error {
	return command(ctx, "git", "-C", s.gitDir(), "ls-tree", "-r", "--name-only", "main").Run()
}

func (s *demoStage) log(ctx context.Context) error {
	return command(ctx, "git", "-C", s.gitDir(), "log", "--format=%h %an: %s%n%(trailers)", "--shortstat", "main").Run()
}

func (s *demoStage) head(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "-C", s.gitDir(), "rev-parse", "main").Output()
	return string(out), err
}

// empty shows the tree and fails if it contains files of emco.
func (s *demoStage) empty(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "git", "-C", s.gitDir(), "ls-tree", "-r", "--name-only", "main").Output()
	if err != nil {
		return err
	}
	fmt.Print(string(out))
	if strings.Contains(string(out), "clusters/") {
		return errors.New("files are left")
	}
	return nil
}

// command runs a program with our streams.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}

// short removes the temporary folder from the output.
func short(dir string, args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = strings.ReplaceAll(filepath.Base(a), dir, "")
		if !strings.Contains(a, dir) && !strings.HasPrefix(a, "/") && !strings.HasPrefix(a, "..") {
			out[i] = a
		}
	}
	return out
}
