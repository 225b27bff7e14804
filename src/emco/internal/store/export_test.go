package store

import "time"

// SetLease sets the age at which an unfinished write counts as left behind; with 0
// every unfinished write that is met does.
func (db *DB) SetLease(d time.Duration) { db.lease = d }
