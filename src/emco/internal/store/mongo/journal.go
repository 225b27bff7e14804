package mongo

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	keptLines = 10_000          // lines that are kept at least
	trimEvery = 1000            // lines after which older ones are removed
	overdue   = 5 * time.Second // age of an announced write after which it is made to fail
	maxTries  = 32              // of an announcement that others overtake
)

// line announces one write: the document under Key gets the tag Tag in place of At; 0 stands for
// no document.
type line struct {
	N     int64     `bson:"_id"` // numbers have no gaps
	Key   store.Key `bson:"key"`
	At    int64     `bson:"at"`
	Tag   int64     `bson:"tag"`
	Since int64     `bson:"since"` // milliseconds since 1970
}

// lineStore is what a journal needs of the database. Each method is one command, or a few that read.
type lineStore interface {
	// newest returns the number of the newest line; 0 if there is none.
	newest(ctx context.Context) (int64, error)
	// insert adds lines in order, until one number is taken. It returns how many it added, and errTaken
	// if it did not add all.
	insert(ctx context.Context, all []line) (int, error)
	// from returns the lines from a number on, in order.
	from(ctx context.Context, n int64) ([]line, error)
	// tags returns the tags of documents; absent ones are missing.
	tags(ctx context.Context, keys []store.Key) (map[store.Key]int64, error)
	// raise gives the document a new tag if it has the tag at.
	raise(ctx context.Context, k store.Key, at int64) error
	// drop removes the lines up to a number.
	drop(ctx context.Context, upTo int64) error
}

var errTaken = errors.New("the number is taken")

// journal shows which documents were written, without transactions and change streams. Each write is
// announced by a line before it is made. Whoever asks reads the lines after its mark, and then the tags of
// their documents. A line is settled if the tag is no longer At: the write was made or it lost, since a tag
// never returns. A mark does not pass a line that is open, so its document is reported again.
//
// The writer of an open line may have died, or it may sleep. When the line is overdue the document is
// raised: it gets another tag, and the late write fails. A creation that arrives late is not stopped, but
// it is Pending, and what makes it Live is announced again.
type journal struct {
	db         lineStore
	reach      *reachability // of db
	now        func() time.Time
	kept, trim int64 // keptLines and trimEvery, but for tests

	turn    chan struct{} // holds one token while a goroutine announces for all that wait
	settled atomic.Int64  // all lines up to this one are settled
	hint    atomic.Int64  // a number that was the newest once

	mu      sync.Mutex
	waiting []*announcement // guarded by mu
}

// announcement is a line that waits for its number.
type announcement struct {
	line line
	done chan struct{} // closed when err is final
	err  error
}

func newJournal(db lineStore, r *reachability, now func() time.Time) *journal {
	return &journal{db: db, reach: r, now: now, kept: keptLines, trim: trimEvery, turn: make(chan struct{}, 1)}
}

// announce returns once the write is announced. Those who wait meanwhile share one command.
func (j *journal) announce(ctx context.Context, k store.Key, at, tag int64) error {
	a := &announcement{line: line{Key: k, At: at, Tag: tag, Since: j.now().UnixMilli()}, done: make(chan struct{})}
	j.mu.Lock()
	j.waiting = append(j.waiting, a)
	j.mu.Unlock()
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return errs.E(errs.Unavailable, "announce", string(k), context.Cause(ctx))
	case j.turn <- struct{}{}:
	}
	j.announceWaiting(context.WithoutCancel(ctx))
	<-j.turn
	<-a.done
	return a.err
}

func (j *journal) announceWaiting(ctx context.Context) {
	j.mu.Lock()
	batch := j.waiting
	j.waiting = nil
	j.mu.Unlock()
	if len(batch) == 0 {
		return // another goroutine took ours along
	}
	err := j.reach.within(ctx, "announce", "writes", func(ctx context.Context) error { return j.write(ctx, batch) })
	for _, a := range batch {
		a.err = err
		close(a.done)
	}
}

// write gives each line a number after the newest one.
func (j *journal) write(ctx context.Context, batch []*announcement) error {
	for range maxTries {
		first := j.hint.Load() + 1
		all := make([]line, len(batch))
		for i, a := range batch {
			all[i] = a.line
			all[i].N = first + int64(i)
		}
		n, err := j.db.insert(ctx, all)
		if err != nil && !errors.Is(err, errTaken) {
			return err
		}
		batch = batch[n:]
		newest, err := j.db.newest(ctx)
		if err != nil {
			return err
		}
		j.hint.Store(newest)
		// A goroutine that slept may have used a number that was removed long ago: such a line is not read.
		if n > 0 && newest-first >= j.kept {
			batch = slices.Concat(announcementsOf(all[:n]), batch)
		}
		if len(batch) == 0 {
			return j.trimmed(ctx, first, first+int64(n)-1)
		}
	}
	return errs.E(errs.Unavailable, "announce", string(batch[0].line.Key), errors.New("many write at once, try again"))
}

// announcementsOf returns lines that must be announced again.
func announcementsOf(all []line) (out []*announcement) {
	for _, l := range all {
		out = append(out, &announcement{line: l})
	}
	return out
}

// trimmed removes old lines from time to time, after it has settled them.
func (j *journal) trimmed(ctx context.Context, first, last int64) error {
	if first/j.trim == last/j.trim && first%j.trim != 0 || last <= j.kept {
		return nil
	}
	upTo := last - j.kept
	old, err := j.db.from(ctx, 0)
	if err != nil {
		return err
	}
	old = slices.DeleteFunc(old, func(l line) bool { return l.N > upTo })
	if _, err := j.settle(ctx, old, true); err != nil {
		return err
	}
	return j.db.drop(ctx, upTo)
}

// settle returns the number of the last line before the first open one; 0 if the first line is open. It
// raises the documents of overdue lines, or of all open ones.
func (j *journal) settle(ctx context.Context, all []line, force bool) (upTo int64, err error) {
	tags, err := j.db.tags(ctx, keysOf(all))
	if err != nil {
		return 0, err
	}
	now, gap := j.now().UnixMilli(), false
	for _, l := range all {
		if tags[l.Key] == l.At {
			age := now - l.Since
			if !force && age < overdue.Milliseconds() && age > -overdue.Milliseconds() {
				gap = true
				continue
			}
			if l.At != 0 {
				if err := j.db.raise(ctx, l.Key, l.At); err != nil {
					return 0, err
				}
			}
		}
		if !gap {
			upTo = l.N
		}
	}
	return upTo, nil
}

// keysOf returns the keys of lines, each once.
func keysOf(all []line) []store.Key {
	keys := make([]store.Key, len(all))
	for i, l := range all {
		keys[i] = l.Key
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// changes returns what was written since a mark.
func (j *journal) changes(ctx context.Context, mark int64) (store.Changes, error) {
	settled := j.settled.Load()
	from := mark
	if mark == 0 {
		from = settled
	}
	all, err := j.db.from(ctx, from)
	if err != nil {
		return store.Changes{}, err
	}
	known := mark > 0 && len(all) > 0 && all[0].N == mark
	if mark > 0 && !known { // its line was removed, or never was
		if all, err = j.db.from(ctx, settled); err != nil {
			return store.Changes{}, err
		}
	}
	out := store.Changes{All: !known, Mark: from}
	if !known {
		out.Mark = settled
	}
	if len(all) > 0 && all[0].N == out.Mark {
		all = all[1:]
	}
	upTo, err := j.settle(ctx, all, false)
	if err != nil {
		return store.Changes{}, err
	}
	out.Mark = max(out.Mark, upTo)
	if known {
		out.Keys = keysOf(all)
	}
	for old := j.settled.Load(); out.Mark > old && !j.settled.CompareAndSwap(old, out.Mark); old = j.settled.Load() {
	}
	return out, nil
}

// newTag returns a random tag.
func newTag() int64 { return 1 + rand.Int64N(1<<62) }
