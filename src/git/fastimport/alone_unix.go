//go:build unix

package fastimport

import (
	"os/exec"
	"syscall"
)

// alone gives a process a group of its own, so that what it has started is ended with it.
func alone(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
