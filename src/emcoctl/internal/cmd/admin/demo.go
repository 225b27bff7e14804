package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// newDemoCommand returns the command that shows what EMCO does. The program simfleet does it.
func newDemoCommand(s *session.Session) *cobra.Command {
	var (
		keep bool
		data string
	)
	c := &cobra.Command{
		Use: "demo", Short: "Show in a minute what EMCO does, on this machine, without Kubernetes",
		Long: `Demo starts emco, a Git server and three simulated clusters on this machine. It deploys two charts
until all is Ready, plans a change and rolls it out, breaks a chart and repairs it, rolls back,
removes everything, and ends. It prints the commands of emcoctl that it runs.

It needs git, and the programs emco and simfleet of the same archive; no source and no network.`,
		Example: "  emcoctl demo\n  emcoctl demo --keep",
		Args:    cobra.NoArgs,
		RunE: s.Run(func(c *cobra.Command, _ []string) error {
			args := []string{"demo"}
			if keep {
				args = append(args, "-keep")
			}
			if data != "" {
				args = append(args, "-data", data)
			}
			return showDemo(c.Context(), s, args)
		}),
	}
	c.Flags().BoolVar(&keep, "keep", false, "leave everything running until Ctrl-C, and print commands to try")
	c.Flags().StringVar(&data, "data", "", "folder for everything, which must be new or empty, and stays (default a temporary folder, which does not)")
	return c
}

// showDemo runs simfleet until it ends. When ctx ends, simfleet ends what it has started.
func showDemo(ctx context.Context, s *session.Session, args []string) error {
	program, err := findSimfleet()
	if err != nil {
		return err
	}
	var fault bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdout, cmd.Stderr = s.Sys.Out, &fault
	err = cmd.Run()
	if cmd.ProcessState != nil && cmd.ProcessState.Success() {
		return nil // Run fails if ctx has ended, also when simfleet ends well
	}
	if text := strings.TrimPrefix(strings.TrimSpace(fault.String()), "simfleet: "); text != "" {
		return errors.New(text)
	}
	return fmt.Errorf("%s demo: %w", program, err)
}

// findSimfleet returns the program simfleet beside emcoctl, or the first on the PATH.
func findSimfleet() (string, error) {
	if runtime.GOOS == "windows" {
		return "", errors.New("the demonstration needs Linux or macOS, because emco does; WSL is enough")
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	beside := filepath.Dir(self)
	path, notBeside := exec.LookPath(filepath.Join(beside, "simfleet"))
	if notBeside == nil {
		return path, nil
	}
	if path, err = exec.LookPath("simfleet"); err != nil {
		return "", fmt.Errorf("the program simfleet is neither in %s, beside emcoctl, nor on the PATH; it is in the archive with emco, which install.sh installs without --only", beside)
	}
	return path, nil
}
