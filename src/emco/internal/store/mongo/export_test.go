package mongo

import (
	"context"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Overdue is the age of an announced write after which it is made to fail.
const Overdue = overdue

// OpenReplicated opens an existing database as that of a replica set.
func OpenReplicated(uri, database string) (*Driver, error) {
	client, r, err := connect(uri)
	if err != nil {
		return nil, err
	}
	d, _ := newDriver(client, database, true, r)
	return d, nil
}

// Announce announces a write at another time than now.
func (d *Driver) Announce(ctx context.Context, k store.Key, at, tag int64, shift time.Duration) error {
	j := newJournal(d.journal.db, d.reach, func() time.Time { return time.Now().Add(shift) })
	return j.announce(ctx, k, at, tag)
}

// Classify gives an error a kind.
func Classify(err error) error { return classify("get", "a", err) }

// Replicated reports whether the driver uses the reads and writes of a replica set.
func (d *Driver) Replicated() bool { return d.replicated }
