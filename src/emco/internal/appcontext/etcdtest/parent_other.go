//go:build !linux

package etcdtest

import (
	"os/exec"
	"strconv"
	"strings"
)

// dieWithParent does nothing where the kernel has no means for it.
func dieWithParent(*exec.Cmd) {}

// stopped reports whether a process is stopped.
func stopped(pid int) bool {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.HasPrefix(strings.TrimSpace(string(out)), "T")
}
