package etcdtest

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the child when its parent dies, also one that is
// paused and cannot see that for itself.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
