package etcdtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// dieWithParent has the kernel kill the child when its parent dies, also one that is
// paused and cannot see that for itself.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// stopped reports whether all threads of a process are stopped.
func stopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, t := range threads {
		stat, err := os.ReadFile(t) // "1234 (name) T ..."
		if _, state, ok := strings.Cut(string(stat), ") "); err != nil || !ok || !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}
