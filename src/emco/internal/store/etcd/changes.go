package etcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	kept     = 10_000          // changes that are kept at least
	patience = 2 * time.Second // how long a question waits for the watch

	minWait = 50 * time.Millisecond // before an interrupted watch goes on
	maxWait = 5 * time.Second
)

// Changes implements store.Follower. A mark is etcd's revision of the last write of a document.
func (d *Driver) Changes(ctx context.Context, mark int64) (store.Changes, error) {
	if err := context.Cause(ctx); err != nil {
		return store.Changes{}, errs.E(errs.Unavailable, "list", "changes", err)
	}
	r, err := d.kv.Get(ctx, d.last())
	if err != nil {
		return store.Changes{}, err
	}
	out := store.Changes{All: true}
	if len(r.Kvs) > 0 {
		out.Mark = r.Kvs[0].ModRevision
	}
	if mark == 0 || mark > out.Mark {
		return out, nil
	}
	if keys, ok := d.changes.between(ctx, mark, out.Mark); ok {
		out.Keys, out.All = keys, false
	}
	return out, nil
}

// changeLog keeps the keys of changed documents, which come from a watch.
type changeLog struct {
	kv     *etcdkv.Client
	prefix string // of documents
	stop   context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	lines    []change      // in order; guarded by mu
	first    int64         // lines holds all changes after this revision; 0: the watch has not begun; guarded by mu
	reached  int64         // lines holds all changes up to this revision; guarded by mu
	advanced chan struct{} // closed and replaced when reached grows; guarded by mu
}

type change struct {
	revision int64
	key      store.Key
}

// follow starts the watch; close ends it.
func follow(kv *etcdkv.Client, prefix string) *changeLog {
	ctx, stop := context.WithCancel(context.Background())
	l := &changeLog{kv: kv, prefix: prefix, stop: stop, done: make(chan struct{}), advanced: make(chan struct{})}
	go l.run(ctx)
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

// forget drops all lines: what follows has a gap before it.
func (l *changeLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines, l.first, l.reached = nil, 0, 0
}

// watch takes in changes after those that are known, until that fails.
func (l *changeLog) watch(ctx context.Context) error {
	from := l.mark()
	if from == 0 {
		r, err := l.kv.Get(ctx, l.prefix, clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		from = r.Header.Revision
		l.begin(from)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range l.kv.Stream(ctx, l.prefix, clientv3.WithPrefix(), clientv3.WithRev(from+1)) {
		if err := r.Err(); err != nil {
			return err
		}
		l.add(r.Events)
	}
	return errors.New("the watch ended")
}

func (l *changeLog) begin(revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first, l.reached = revision, revision
	l.advanceLocked()
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
	bytes := 0
	for _, e := range events {
		bytes += len(e.Kv.Key) + len(e.Kv.Value)
		_, key, _ := strings.Cut(strings.TrimPrefix(string(e.Kv.Key), l.prefix), "/")
		l.lines = append(l.lines, change{e.Kv.ModRevision, store.Key(key)})
		l.reached = e.Kv.ModRevision
	}
	l.kv.CountRequest("watch", bytes)
	if old := len(l.lines) - kept; old > kept {
		l.first = l.lines[old-1].revision
		l.lines = append([]change(nil), l.lines[old:]...)
	}
	l.advanceLocked()
}

// between returns the keys that were changed after one revision and up to another; false if they are
// no longer known, or if the watch does not reach that revision in time.
func (l *changeLog) between(ctx context.Context, after, upTo int64) ([]store.Key, bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		keys, ok, advanced := l.look(after, upTo)
		if advanced == nil {
			return keys, ok
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// look returns what between returns, or a channel that is closed when there is more to see.
func (l *changeLog) look(after, upTo int64) (keys []store.Key, ok bool, advanced <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if after == upTo {
		return nil, true, nil
	}
	if l.reached < upTo {
		return nil, false, l.advanced
	}
	if after < l.first {
		return nil, false, nil
	}
	for _, c := range l.lines {
		if c.revision > after && c.revision <= upTo {
			keys = append(keys, c.key)
		}
	}
	return keys, true, nil
}
