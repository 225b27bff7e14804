package statusview

// Waiting returns how many places rsync has not taken up yet: their pairs do not desire what
// the head does. While it is not zero, the pairs tell of an earlier revision.
func (s Snapshot) Waiting() (n int) {
	for _, a := range s.apps {
		for _, p := range a.places {
			if !s.Head.Gone && (p.pair == nil || p.pair.Desired != p.bundle) {
				n++
			}
		}
	}
	for _, p := range s.left {
		if p.Desired != "" {
			n++
		}
	}
	return n
}
