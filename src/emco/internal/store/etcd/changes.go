package etcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"sort"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	kept         = 10_000                 // changes that are kept at least
	patience     = 2 * time.Second        // how long a question about changes waits for the watch
	readPatience = 250 * time.Millisecond // how long a read waits for it, before it asks etcd itself

	minWait = 50 * time.Millisecond // before an interrupted watch goes on
	maxWait = 5 * time.Second
)

// Changes implements store.Follower. A mark is etcd's revision of the last write of a document.
func (d *Driver) Changes(ctx context.Context, mark int64) (store.Changes, error) {
	if err := context.Cause(ctx); err != nil {
		return store.Changes{}, errs.E(errs.Unavailable, "list", "changes", err)
	}
	now, err := d.point(ctx)
	if err != nil {
		return store.Changes{}, err
	}
	out := store.Changes{All: true, Mark: now}
	if mark == 0 {
		return out, nil
	}
	if keys, upTo, ok := d.changes.since(ctx, mark, now); ok {
		return store.Changes{Keys: keys, Mark: upTo}, nil
	}
	return out, nil
}

// point returns the read point of ctx, which it takes if there is none; without one, the revision of the last write now.
func (d *Driver) point(ctx context.Context) (int64, error) {
	p := readpoint.Of(ctx)
	if p == nil {
		return d.newest.ask(ctx)
	}
	at, turn := p.At()
	if at > 0 {
		return at, nil
	}
	at, err := d.newest.ask(ctx)
	if err == nil {
		p.Take(at, turn)
	}
	return at, err
}

// changeLog keeps the keys of changed documents, which come from a watch, and has the cache follow them.
type changeLog struct {
	kv     *etcdkv.Client
	prefix string // of documents
	last   string // the key that each write of a document writes
	cache  *cache
	stop   context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	lines    []change      // in order; guarded by mu
	first    int64         // lines holds all changes after this revision; 0: the watch has not begun; guarded by mu
	reached  int64         // lines holds all changes up to this revision; guarded by mu
	behind   bool          // the watch was late or is interrupted: reads do not wait for it until it brings something; guarded by mu
	again    func()        // ends the watch, so that run begins the next one; guarded by mu
	advanced chan struct{} // closed and replaced when reached grows; guarded by mu
}

type change struct {
	revision int64
	key      store.Key
}

// follow starts the watch; close ends it.
func follow(kv *etcdkv.Client, prefix, last string, c *cache) *changeLog {
	ctx, stop := context.WithCancel(context.Background())
	l := &changeLog{kv: kv, prefix: prefix, last: last, cache: c, stop: stop, done: make(chan struct{}), behind: true, again: func() {}, advanced: make(chan struct{})}
	go l.run(ctx) // close waits for it
	return l
}

func (l *changeLog) close() {
	l.stop()
	<-l.done
}

// run watches until ctx ends.
func (l *changeLog) run(ctx context.Context) {
	defer close(l.done)
	for wait := minWait; ctx.Err() == nil; wait = min(2*wait, maxWait) {
		before := l.mark()
		err := l.watch(ctx)
		l.fallBehind()
		if errors.Is(err, rpctypes.ErrCompacted) {
			l.forget()
		}
		if l.mark() > before {
			wait = minWait
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + rand.N(wait/2+1)):
			l.kv.Log().Warn("the watch of documents was interrupted", "err", err)
		}
	}
}

func (l *changeLog) mark() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reached
}

// fallBehind notes that the watch brings nothing for a while.
func (l *changeLog) fallBehind() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.behind = true
}

// forget drops all lines: what follows has a gap before it. A watch that is under way ends.
func (l *changeLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines, l.first, l.reached = nil, 0, 0
	l.cache.clear()
	l.again()
}

// watch takes in changes after those that are known, until that fails.
func (l *changeLog) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from := l.resume(cancel)
	if from == 0 {
		r, err := l.kv.Get(ctx, l.last)
		if err != nil {
			return err
		}
		from = r.Header.Revision
		l.begin(lastWrite(r.Kvs))
	}
	for r := range l.kv.Stream(ctx, l.prefix, clientv3.WithPrefix(), clientv3.WithRev(from+1)) {
		if err := r.Err(); err != nil {
			return err
		}
		l.add(r.Events)
	}
	return errors.New("the watch ended")
}

// resume returns the revision after which a watch begins, 0 if nothing is known yet; again ends the watch.
func (l *changeLog) resume(again func()) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.again = again
	return l.reached
}

// lastWrite returns the revision of the last write of a document, from what is stored under that key: at least 1.
func lastWrite(kvs []*mvccpb.KeyValue) int64 {
	if len(kvs) == 0 {
		return 1
	}
	return kvs[0].ModRevision
}

// begin starts the log at a revision.
func (l *changeLog) begin(revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first, l.reached, l.behind = revision, revision, false
	l.cache.clear() // changes between the last watch and this one are not known
	l.advanceLocked()
}

// newest asks etcd for the revision of the last write of a document.
func (l *changeLog) newest(ctx context.Context) (int64, error) {
	seen := l.mark()
	r, err := l.kv.Get(ctx, l.last)
	if err != nil {
		return 0, err
	}
	at := lastWrite(r.Kvs)
	l.compare(seen, at)
	return at, nil
}

// compare compares the revision of the last write by an answer of etcd with the mark from before the question. If the mark is later, etcd was
// restored from a backup: compare empties the log and the cache, the watch begins anew, and compare returns true.
func (l *changeLog) compare(seen, at int64) (restored bool) {
	if at < seen {
		l.forget()
	}
	return at < seen
}

func (l *changeLog) advanceLocked() {
	close(l.advanced)
	l.advanced = make(chan struct{})
}

// add takes in events; etcd does not divide those of one revision.
func (l *changeLog) add(events []*clientv3.Event) {
	if len(events) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == 0 {
		return // they came before the log was emptied
	}
	bytes := 0
	for _, e := range events {
		bytes += len(e.Kv.Key) + len(e.Kv.Value)
		_, key, _ := strings.Cut(strings.TrimPrefix(string(e.Kv.Key), l.prefix), "/")
		l.lines = append(l.lines, change{e.Kv.ModRevision, store.Key(key)})
		l.cache.apply(l.prefix, e.Kv, e.Type == mvccpb.DELETE)
		l.reached = e.Kv.ModRevision
	}
	l.behind = false
	l.kv.CountRequest("watch", bytes)
	if old := len(l.lines) - kept; old > kept {
		l.first = l.lines[old-1].revision
		l.lines = append([]change(nil), l.lines[old:]...)
	}
	l.advanceLocked()
}

// since returns the keys that were changed after one revision and up to another or a later one, which it also returns; false if they are
// no longer known, or if the watch does not reach that revision in time.
func (l *changeLog) since(ctx context.Context, after, upTo int64) (keys []store.Key, reached int64, ok bool) {
	l.await(ctx, upTo, patience)
	l.mu.Lock()
	defer l.mu.Unlock()
	if after == upTo {
		return nil, upTo, true
	}
	if l.reached < upTo || after < l.first || after > l.reached {
		return nil, 0, false
	}
	for i := sort.Search(len(l.lines), func(i int) bool { return l.lines[i].revision > after }); i < len(l.lines); i++ {
		keys = append(keys, l.lines[i].key)
	}
	return keys, l.reached, true
}

// await returns when the watch has brought all changes up to a revision; false if that takes too long.
func (l *changeLog) await(ctx context.Context, revision int64, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		advanced := l.wait(revision)
		if advanced == nil {
			return true
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return false
		}
	}
}

// wait returns nil if a revision is reached, or a channel that is closed when more is.
func (l *changeLog) wait(revision int64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reached >= revision {
		return nil
	}
	return l.advanced
}

// caughtUp reports whether the cache shows all changes up to a revision. After the watch was late once, reads do not wait for it
// until it brings something.
func (l *changeLog) caughtUp(ctx context.Context, revision int64) bool {
	l.mu.Lock()
	reached, behind := l.reached, l.behind
	l.mu.Unlock()
	if reached >= revision || behind {
		return reached >= revision
	}
	if l.await(ctx, revision, readPatience) {
		return true
	}
	l.late(reached)
	return false
}

// late notes that the watch has brought nothing since a revision.
func (l *changeLog) late(reached int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.behind = l.behind || l.reached == reached
}
