//go:build !unix

package fastimport

import "os/exec"

// alone sees to it that ending the process is all that is done.
func alone(cmd *exec.Cmd) { cmd.Cancel = func() error { return cmd.Process.Kill() } }
