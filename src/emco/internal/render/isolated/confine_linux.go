package isolated

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// confine sets the limits of a process. RLIMIT_DATA counts the memory that is in
// use, whereas RLIMIT_AS would count what Go's run time reserves without using it.
// The limit on processor time ends a child whose parent is gone.
func confine(pid int, l Limits) error {
	seconds := uint64(l.Time/time.Second) + 2
	for _, r := range []struct {
		resource int
		most     uint64
	}{
		{unix.RLIMIT_DATA, l.Memory},
		{unix.RLIMIT_CPU, seconds * 2}, // of all its threads together
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_FSIZE, 0},
	} {
		if err := unix.Prlimit(pid, r.resource, &unix.Rlimit{Cur: r.most, Max: r.most}, nil); err != nil {
			return fmt.Errorf("limit the child: %w", err)
		}
	}
	return nil
}
