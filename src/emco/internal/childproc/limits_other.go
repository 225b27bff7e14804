//go:build !linux

package childproc

import (
	"os"
	"os/exec"
	"time"
)

// set does nothing: only Linux can limit other processes. The limits on time and output
// apply everywhere.
func (l Limits) set(int, int) error { return nil }

// renew does nothing: there is no limit on processor time.
func (l Limits) renew(int) error { return nil }

// spent is always false: nothing is measured.
func (l Limits) spent(*os.ProcessState) bool { return false }

// Heed does nothing.
func Heed(time.Duration) (stop func()) { return func() {} }

// setProcessGroup makes Cancel kill only the process.
func setProcessGroup(cmd *exec.Cmd) { cmd.Cancel = func() error { return cmd.Process.Kill() } }

// tie does nothing.
func tie(*exec.Cmd) (release func()) { return func() {} }
