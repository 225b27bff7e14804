package s3test

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel end the program with this process.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
