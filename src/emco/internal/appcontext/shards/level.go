package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
)

// processes is the kind of the keys with which processes announce the level that they know.
const processes = "process"

// maxMembers is how many keys of processes are read. A level is not raised while there are more.
const maxMembers = 1000

// ErrLevel means that the stores are at a higher level than this program knows.
var ErrLevel = errors.New("the stores are at a higher level")

// Program is a program as it announces itself.
type Program struct {
	Version string    `json:"version"` // for people
	Level   int       `json:"level"`   // the highest that it reads and writes
	At      time.Time `json:"at"`      // when it began

	Settings map[string]string `json:"settings,omitempty"` // that all processes need alike, by name; short values
}

// levelRecord is the level in force, with the program that raised it.
type levelRecord struct {
	Level   int       `json:"level"`
	Version string    `json:"version"`
	At      time.Time `json:"at"`
}

// Level agrees with all other processes on the level of what is stored: the lowest that any of them knows. It
// rises when all processes have known more for a while, or when an operator raises it, and never falls. Make it with NewLevel.
type Level struct {
	kv     *etcdkv.Client
	member Member
	own    Program
	settle time.Duration
	byHand bool // this process raises the level only on an operator's command

	settings *Settings

	interval time.Duration // between two looks at the processes

	lease *lease    // of this process' key; nil: there is none; only Join, then Run, then Leave
	above time.Time // since when all processes know a higher level; only Run

	mu        sync.Mutex
	announced *lease // that carries this process' key; nil: it is not announced; guarded by mu
	inForce   int    // guarded by mu
	lowest    int    // of all processes; guarded by mu
	members   int    // guarded by mu
}

// NewLevel returns the level of the stores, for a process that knows own.Level. It rises when all processes
// have known a higher one for settle; as soon as it runs if settle is 0, which is right for a process that is alone.
func NewLevel(kv *etcdkv.Client, m Member, own Program, settle time.Duration) *Level {
	return &Level{
		kv: kv, member: m, own: own, settle: settle, interval: cmp.Or(settle/6, aloneInterval),
		settings: &Settings{holder: m.Holder, own: own.Settings, log: kv.Log()},
	}
}

// ByHand has this process raise a level only when Raise is called. Stores without a level, which are new, get one all the same.
func (l *Level) ByHand() *Level {
	l.byHand = true
	return l
}

// Settings returns the comparison of own.Settings with those of the other processes.
func (l *Level) Settings() *Settings { return l.settings }

// WithInterval sets the time between two looks at the processes.
func (l *Level) WithInterval(d time.Duration) *Level {
	l.interval = d
	return l
}

// Join announces the level that this process knows. It returns ErrLevel if the stores are at a higher one, and
// Unavailable if etcd does not answer. Nothing may be written before, nor while Ready returns an error. A process that is alone only compares. While
// etcd is full, every process only compares, because no level rises then, and Run announces later: a full disk delays no start. The caller
// must call Run or Leave afterwards.
func (l *Level) Join(ctx context.Context) error {
	if l.settle > 0 {
		if err := l.join(ctx); !errors.Is(err, etcdkv.ErrFull) {
			return err
		}
	}
	now, err := l.observe(ctx)
	if err != nil {
		return err
	}
	return l.check(now.record)
}

func (l *Level) join(ctx context.Context) error {
	err := l.grant(ctx)
	if err == nil {
		err = l.announce(ctx, l.lease)
	}
	if err == nil {
		_, err = l.observe(ctx)
	}
	if err != nil {
		_ = l.Leave(ctx)
	}
	return err
}

// grant gets the lease of this process' key.
func (l *Level) grant(ctx context.Context) (err error) {
	if err := etcdkv.CheckParts(l.member.Holder); err != nil {
		return err
	}
	l.lease, err = grantLease(ctx, l.kv, processes, l.member.TTL)
	return err
}

// Leave removes what was announced.
func (l *Level) Leave(ctx context.Context) error {
	if l.lease == nil {
		return nil
	}
	err := l.lease.end(ctx)
	l.setAnnounced(nil)
	l.lease = nil
	return err
}

// Run keeps this process announced until ctx ends, and raises the level when it can. It ends with ErrLevel when
// the stores were raised beyond what this process knows, while it had lost its lease.
func (l *Level) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := l.follow(ctx)
		if errors.Is(err, ErrLevel) {
			return err
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		l.kv.Log().Warn("announcing the level of this process again", "err", err)
		_ = l.Leave(ctx)
		_ = pause.For(ctx, retryPause)
	}
	return nil
}

// follow looks at the processes regularly, until ctx ends or the lease is lost.
func (l *Level) follow(ctx context.Context) error {
	if l.lease == nil {
		if err := l.grant(ctx); err != nil {
			return err
		}
		if err := l.lease.retry(ctx, func() error { return l.announce(ctx, l.lease) }); err != nil {
			return err
		}
	}
	every := time.NewTicker(l.interval)
	defer every.Stop()
	for {
		if err := l.look(ctx); err != nil && !errs.Is(err, errs.Unavailable) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.lease.lost:
			return errLeaseLost
		case <-every.C:
		}
	}
}

// aloneInterval is the time between looks of a process that is alone.
const aloneInterval = time.Minute

func (l *Level) key() string { return l.kv.Key("member", "level") }

// announce writes this process' key, unless the level is above what it knows. Another process may raise it at
// the same moment: then announce looks again.
func (l *Level) announce(ctx context.Context, lease *lease) error {
	key := l.kv.Key("member", processes, l.member.Holder)
	text, err := etcdkv.Encode(key, l.own)
	if err != nil {
		return err
	}
	for {
		now, err := l.read(ctx)
		if err != nil {
			return err
		}
		if err := l.check(now.record); err != nil {
			return err
		}
		same := clientv3.Compare(clientv3.ModRevision(l.key()), "=", now.mod)
		_, done, err := l.kv.Commit(ctx, key, []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpPut(key, text, clientv3.WithLease(lease.id))})
		if done && err == nil {
			l.setAnnounced(lease)
		}
		if err != nil || done {
			return err
		}
	}
}

func (l *Level) setAnnounced(lease *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.announced = lease
}

// check refuses stores of a higher level.
func (l *Level) check(r levelRecord) error {
	if r.Level <= l.own.Level {
		return nil
	}
	return errs.E(errs.Conflict, "open", "the stores", fmt.Errorf(
		"%w: the AppContext in etcd is at level %d since version %s wrote there (%s), and this version, %s, knows level %d. "+
			"Start version %s or a newer one; to go back to an older version, restore the backup from before the upgrade",
		ErrLevel, r.Level, r.Version, r.At.UTC().Format(time.RFC3339), l.own.Version, l.own.Level, r.Version))
}

// observe reads what the processes have announced.
func (l *Level) observe(ctx context.Context) (levels, error) {
	now, err := l.read(ctx)
	if err != nil {
		return now, err
	}
	l.settings.compare(now.settings)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inForce, l.lowest, l.members = now.record.Level, now.lowest, now.members
	return now, nil
}

// raiseAttempts bounds how often a raise is tried again because processes come meanwhile.
const raiseAttempts = 5

// look reads the processes, and raises the level if they have agreed for long enough. If one has come or changed meanwhile, as the
// services of this process do while they start, it looks again.
func (l *Level) look(ctx context.Context) error {
	for range raiseAttempts {
		if again, err := l.raiseIfAgreed(ctx); err != nil || !again {
			return err
		}
	}
	return nil
}

// raiseIfAgreed is one look; again is true if the level was to be raised and a process has come or changed meanwhile.
func (l *Level) raiseIfAgreed(ctx context.Context) (again bool, err error) {
	now, err := l.observe(ctx)
	if err != nil {
		return false, err
	}
	if err := l.check(now.record); err != nil {
		return false, err
	}
	if now.members == 0 || now.more || now.lowest <= now.record.Level || l.byHand && now.mod > 0 {
		l.above = time.Time{}
		return false, nil
	}
	if l.above.IsZero() {
		l.above = time.Now()
	}
	if time.Since(l.above) < l.settle {
		return false, nil
	}
	done, err := l.raise(ctx, now)
	if done || err != nil {
		l.above = time.Time{}
	}
	return !done, err
}

// Raise raises the level at once, to the lowest that any process knows. The error is Conflict if a process knows no more than the
// level in force, and Unavailable if not all processes can be compared.
func (l *Level) Raise(ctx context.Context) (from, to int, err error) {
	if err := l.Ready(); err != nil {
		return 0, 0, err
	}
	for range raiseAttempts {
		now, err := l.observe(ctx)
		if err != nil {
			return 0, 0, err
		}
		switch {
		case now.members == 0 || now.more:
			return 0, 0, errs.New(errs.Unavailable, fmt.Sprintf("cannot raise the level: %d processes are announced, and from 1 to %d can be compared; try again", now.members, maxMembers))
		case now.lowest == l.own.Level && now.record.Level == l.own.Level:
			return 0, 0, errs.New(errs.Conflict, fmt.Sprintf("there is nothing to raise: the stores are at %d, and all processes know %d", now.record.Level, now.lowest))
		case now.lowest <= now.record.Level:
			return 0, 0, errs.New(errs.Conflict, fmt.Sprintf("the level was not raised: the stores are at %d, and the process %s knows %d; replace it by a newer version", now.record.Level, now.oldest, now.lowest))
		}
		if done, err := l.raise(ctx, now); done || err != nil {
			return now.record.Level, now.lowest, err
		}
	}
	return 0, 0, errs.New(errs.Unavailable, "cannot raise the level: processes come and go meanwhile; try again")
}

// levels is the content of the keys of processes at a revision.
type levels struct {
	record   levelRecord
	mod      int64  // of the record; 0: there is none
	lowest   int    // level of all processes
	oldest   string // a process that knows no more
	members  int
	more     bool                         // there are more processes than were read
	settings map[string]map[string]string // by process
	revision int64
}

func (l *Level) read(ctx context.Context) (levels, error) {
	r, err := l.kv.Get(ctx, l.kv.Key("member")+"/", clientv3.WithPrefix(), clientv3.WithLimit(maxMembers))
	if err != nil {
		return levels{}, err
	}
	out := levels{more: r.More, revision: r.Header.Revision, settings: map[string]map[string]string{}}
	known, others := map[string]int{}, map[string]bool{}
	for _, kv := range r.Kvs {
		switch parts := l.kv.Split(kv.Key); {
		case string(kv.Key) == l.key():
			out.mod = kv.ModRevision
			if out.record, err = etcdkv.Decode[levelRecord](kv); err != nil {
				return levels{}, err
			}
		case len(parts) == 3 && parts[1] == processes:
			p, err := etcdkv.Decode[Program](kv)
			if err != nil {
				return levels{}, err
			}
			known[parts[2]], out.settings[parts[2]] = p.Level, p.Settings
		case len(parts) == 3:
			others[parts[2]] = true
		}
	}
	for holder := range others { // that work and announce nothing: programs from before there were levels
		if _, announced := known[holder]; !announced {
			known[holder] = 0
		}
	}
	out.members = len(known)
	first := true
	for holder, level := range known {
		if first || level < out.lowest || level == out.lowest && holder < out.oldest {
			out.lowest, out.oldest, first = level, holder, false
		}
	}
	return out, nil
}

// raise raises the level; done is false if a process has come or changed since. If it fails, all processes must agree for the
// whole time again: while etcd is full, others start without being announced, and announce themselves afterwards.
func (l *Level) raise(ctx context.Context, now levels) (done bool, err error) {
	text, err := etcdkv.Encode(l.key(), levelRecord{Level: now.lowest, Version: l.own.Version, At: time.Now().UTC()})
	if err != nil {
		return false, err
	}
	all := clientv3.Compare(clientv3.ModRevision(l.kv.Key("member")+"/"), "<", now.revision+1).WithPrefix()
	same := clientv3.Compare(clientv3.ModRevision(l.key()), "=", now.mod)
	_, done, err = l.kv.Commit(ctx, l.key(), []clientv3.Cmp{all, same}, []clientv3.Op{clientv3.OpPut(l.key(), text)})
	if err != nil || !done {
		return false, err
	}
	l.kv.Log().Info("the level of the stores was raised; versions that know less no longer start", "from", now.record.Level, "to", now.lowest)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inForce = now.lowest
	return true, nil
}

// InForce returns the level of the stores: nothing newer may be written.
func (l *Level) InForce() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inForce
}

// Name is "level".
func (l *Level) Name() string { return "level" }

// Ready returns Unavailable while the others do not know of this process: the level may rise above what it knows,
// so it may write nothing. A process that is alone is always ready.
func (l *Level) Ready() error {
	l.mu.Lock()
	announced := l.announced
	l.mu.Unlock()
	if l.settle == 0 || announced != nil && announced.held() {
		return nil
	}
	return errs.E(errs.Unavailable, "write", "the stores", fmt.Errorf(
		"other processes do not know of this one (%w); it announces itself when etcd answers and accepts writes, then writes go on", errLeaseLost))
}

// State describes the levels: "stores at 1, this version knows 2, the oldest of 3 processes knows 1".
func (l *Level) State() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := fmt.Sprintf("stores at %d, this version knows %d, the oldest of %d processes knows %d", l.inForce, l.own.Level, l.members, l.lowest)
	if l.byHand && l.lowest > l.inForce {
		text += "; emco level raise raises it"
	}
	return text
}
