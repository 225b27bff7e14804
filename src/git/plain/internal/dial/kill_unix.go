//go:build unix

package dial

import (
	"os/exec"
	"syscall"
)

// killWithChildren gives a program a process group of its own, so that killing it also ends the
// programs that it started, such as ssh's ProxyCommand.
func killWithChildren(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
