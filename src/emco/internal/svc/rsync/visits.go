package rsync

import "sync"

// visits are heads that are to be looked at again although nothing in them has changed.
type visits struct {
	mu  sync.Mutex
	due map[string]bool
}

func (v *visits) add(uid string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.due == nil {
		v.due = map[string]bool{}
	}
	v.due[uid] = true
}

// take reports, once, whether a head is to be looked at again.
func (v *visits) take(uid string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	due := v.due[uid]
	delete(v.due, uid)
	return due
}

// revisit has the shard take in a head again.
func (d *dispatcher) revisit(uid string) {
	d.visits.add(uid)
	d.guardian.again(uid)
}

// remind has the shard look at a head again that could not be taken in.
func (d *dispatcher) remind(uid string, claim, again bool) {
	if claim {
		d.guardian.remind(uid)
	}
	if again {
		d.visits.add(uid)
	}
}
