package peers

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/emco-orchestrator/emco/scripts/e2e/program"
)

// tick is the unit of the times in /proc; Linux shows 100 per second to all programs.
const tick = time.Second / 100

// CPUOf is the processor time of a process and its children, which may be running.
func CPUOf(pid int) time.Duration {
	total := processTime(pid)
	for _, id := range children(pid) {
		total += processTime(id)
	}
	return total
}

// ResidentOf is the memory of a process and its children, in bytes.
func ResidentOf(pid int) (int64, error) {
	m, err := program.MemoryOf(pid)
	if err != nil {
		return 0, err
	}
	for _, id := range children(pid) {
		if of, err := program.MemoryOf(id); err == nil { // otherwise it has ended
			m.Resident += of.Resident
		}
	}
	return m.Resident, nil
}

// children are the ids of the running children of a process.
func children(pid int) (ids []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		list, _ := os.ReadFile(task)
		for child := range strings.FieldsSeq(string(list)) {
			if id, err := strconv.Atoi(child); err == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// processTime is the processor time of a process and its ended children; 0 if it has ended itself.
func processTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // after the name, which may contain any character
	field := strings.Fields(rest)
	if len(field) < 15 {
		return 0
	}
	var ticks int64
	for _, f := range field[11:15] { // utime, stime and those of children
		n, err := strconv.ParseInt(f, 10, 64)
		if err == nil {
			ticks += n
		}
	}
	return time.Duration(ticks) * tick
}

// CPU is the processor time of this process and its ended children: the peers in it, the git programs,
// and the server.
func CPU() (total time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return total
}
