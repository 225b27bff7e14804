package s3test

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel end the program with this process, however that ends.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
