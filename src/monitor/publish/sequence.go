package publish

import "time"

// sequence numbers reports. Each number is above all before. They go on from the one
// that is in the repository; where that is lost, or was never there, the clock gives a
// number that is above those of earlier times, so that the control plane, which
// remembers the last one, does not take all that follows for a replay.
type sequence uint64

// next returns the next number.
func (s *sequence) next(now time.Time) uint64 {
	n := uint64(*s) + 1
	if clock := now.Unix(); clock > 0 && uint64(clock) > n {
		n = uint64(clock)
	}
	*s = sequence(n)
	return n
}

// atLeast notes a number that was used.
func (s *sequence) atLeast(n uint64) {
	*s = max(*s, sequence(n))
}
