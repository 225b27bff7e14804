//go:build !linux

package execplugin

import "os/exec"

// confine does nothing: limits of other processes can be set on Linux only. The limits on
// time and output hold everywhere.
func confine(int, Limits) error { return nil }

// alone sees to it that ending the process is all that is done.
func alone(cmd *exec.Cmd) { cmd.Cancel = func() error { return cmd.Process.Kill() } }
