//go:build !unix

package dial

import "os/exec"

// killWithChildren kills only the program itself where there are no process groups.
func killWithChildren(cmd *exec.Cmd) { cmd.Cancel = cmd.Process.Kill }
