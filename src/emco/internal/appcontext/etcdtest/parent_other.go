//go:build !linux

package etcdtest

import "os/exec"

// dieWithParent does nothing where the kernel has no means for it.
func dieWithParent(*exec.Cmd) {}
