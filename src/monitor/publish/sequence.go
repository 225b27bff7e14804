package publish

import "time"

// sequence numbers reports. Each number is above all earlier ones: it continues after the one
// in the repository, and is at least the time in seconds. So it grows even if the
// repository is lost, and the control plane does not reject reports as replayed.
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

// atLeast raises the sequence to a number that was used.
func (s *sequence) atLeast(n uint64) {
	*s = max(*s, sequence(n))
}
