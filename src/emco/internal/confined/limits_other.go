//go:build !linux

package confined

import (
	"os"
	"os/exec"
)

// set does nothing: limits of other processes can be set on Linux only. Those on time and
// output hold everywhere.
func (l Limits) set(int) error { return nil }

// spent is never so: nobody counts.
func (l Limits) spent(*os.ProcessState) bool { return false }

// Heed does nothing.
func Heed() (stop func()) { return func() {} }

// alone sees to it that ending the process is all that is done.
func alone(cmd *exec.Cmd) { cmd.Cancel = func() error { return cmd.Process.Kill() } }
