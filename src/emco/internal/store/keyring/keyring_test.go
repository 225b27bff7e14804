package keyring_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/kek"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/keyring"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
)

// process is one that shares a store: its ring, and the documents through it.
type process struct {
	t      *testing.T
	driver store.Driver
	ring   *keyring.Ring
	db     *store.DB
	now    *time.Time
}

func sealed(k store.Key) bool { return strings.Contains(string(k), "/kv-pairs/") }

func options(d store.Driver, key seal.Key, now *time.Time) keyring.Options {
	return keyring.Options{
		Driver: d, Wait: 10 * time.Second, Now: func() time.Time { return *now },
		KEK: func(bool) (kek.Wrapper, error) { return kek.Local(key), nil },
	}
}

// join starts a process on a store.
func join(t *testing.T, d store.Driver, key seal.Key, now *time.Time) *process {
	t.Helper()
	p := &process{t: t, driver: d, ring: keyring.New(), now: now}
	if err := p.ring.Open(t.Context(), options(d, key, now)); err != nil {
		t.Fatal(err)
	}
	p.db = store.New(store.SealBodies(d, p.ring.Sealer(), sealed), nil, p.ring.Sealer())
	return p
}

func openStore(t *testing.T, path string) store.Driver {
	t.Helper()
	d, err := sqlite.Open(path, sqlite.WithoutFsync())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

const (
	provider = "cluster-providers/edge"
	pairs    = provider + "/kv-pairs/p"
)

// write stores document n: a secret, and a body that is sealed.
func (p *process) write(n int) {
	p.t.Helper()
	for _, w := range []store.Write{
		{Key: store.Key(fmt.Sprint(provider, "/clusters/", n)), Body: []byte(`{"plain":true}`), Secret: seal.Secret(fmt.Sprint("secret-", n))},
		{Key: store.Key(fmt.Sprint(pairs, n)), Body: fmt.Appendf(nil, `{"value":"planted-%d"}`, n)},
	} {
		if _, err := p.db.Create(p.t.Context(), w); err != nil {
			p.t.Fatal(err)
		}
	}
}

// read reads document n.
func (p *process) read(n int) error {
	d, err := p.db.Get(p.t.Context(), store.Key(fmt.Sprint(provider, "/clusters/", n)))
	if err != nil {
		return err
	}
	secret, err := p.db.Reveal(p.t.Context(), d)
	if err != nil || string(secret) != fmt.Sprint("secret-", n) {
		return fmt.Errorf("a secret of %d bytes, %w", len(secret), err)
	}
	b, err := p.db.Get(p.t.Context(), store.Key(fmt.Sprint(pairs, n)))
	if err == nil && string(b.Body) != fmt.Sprintf(`{"value":"planted-%d"}`, n) {
		err = fmt.Errorf("the body is %s", b.Body)
	}
	return err
}

func (p *process) step() error {
	return p.ring.Step(p.t.Context(), func(ctx context.Context) (bool, error) {
		n, err := store.Reseal(ctx, p.driver, p.ring.Sealer(), sealed)
		return n.Left+n.Done == 0, err
	})
}

// count returns how many values each key sealed, and how many none.
func (p *process) count() store.SealCount {
	p.t.Helper()
	n, err := store.CountSealed(p.t.Context(), p.driver, p.ring.Sealer(), sealed)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *process) keys() keyring.Keys {
	p.t.Helper()
	k, err := p.ring.Keys(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return k
}

// dying is a store that does not answer after so many writes, as for a process that was killed. The last write
// may be made or not.
type dying struct {
	store.Driver
	left int
	made bool
}

var errDead = errors.New("killed")

func (d *dying) Put(ctx context.Context, doc store.Doc, at int64) error {
	if d.left--; d.left < 0 {
		if d.left == -1 && d.made {
			_ = d.Driver.Put(ctx, doc, at)
		}
		return errDead
	}
	return d.Driver.Put(ctx, doc, at)
}

// S-22: a rotation that is killed at any of its writes goes on with the next process; at each moment all values
// open, for processes that know the new key and for those that do not yet.
func TestS22RotationsSurviveKills(t *testing.T) {
	t.Parallel()
	const documents = 3
	for kill := 0; ; kill++ {
		now := time.Unix(1_800_000_000, 0)
		raw, key := openStore(t, filepath.Join(t.TempDir(), "docs.db")), seal.NewKey()
		other := join(t, raw, key, &now)
		for n := range documents {
			other.write(n)
		}
		if err := other.step(); err != nil { // nothing to reseal in a new store
			t.Fatal(err)
		}
		first := other.keys().Current().ID
		doomed := &dying{Driver: raw, left: kill, made: kill%2 == 0}
		victim := join(t, doomed, key, &now)
		_, err := victim.ring.Rotate(t.Context())
		for range 6 {
			now = now.Add(6 * time.Second)
			err = errors.Join(err, victim.step())
		}
		for n := range documents {
			if err := other.read(n); err != nil {
				t.Fatalf("killed at write %d: another process reads: %v", kill, err)
			}
		}
		survivor := join(t, raw, key, &now)
		for range 6 {
			now = now.Add(6 * time.Second)
			if err := survivor.step(); err != nil {
				t.Fatalf("killed at write %d: the next process: %v", kill, err)
			}
		}
		k, n := survivor.keys(), survivor.count()
		if len(k.Keys) == 1 && kill == 0 { // the rotation was never stored
			continue
		}
		current := k.Current().ID
		if current == first || k.Pending() || n.Keys[current] != 2*documents || n.Keys[first] != 0 {
			t.Fatalf("killed at write %d: %+v sealed, keys %+v", kill, n, k)
		}
		for n := range documents {
			if err := errors.Join(survivor.read(n), other.read(n)); err != nil {
				t.Fatalf("killed at write %d: %v", kill, err)
			}
		}
		if err == nil {
			if kill < documents {
				t.Fatalf("the rotation took %d writes", kill)
			}
			return
		}
	}
}

// Readers and writers of two processes never fail while a third one rotates, twice.
func TestS22RotationWhileServing(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	path, key := filepath.Join(t.TempDir(), "docs.db"), seal.NewKey()
	rotating := join(t, openStore(t, path), key, &now)
	for n := range 20 {
		rotating.write(n)
	}
	stop := make(chan struct{})
	var serving sync.WaitGroup
	for i := range 2 {
		p := join(t, openStore(t, path), key, &now)
		serving.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := p.read(n % 20); err != nil {
					t.Errorf("a reader: %v", err)
				}
				if n%5 == 0 {
					p.write(1_000_000*(i+1) + n)
					if err := p.read(1_000_000*(i+1) + n); err != nil {
						t.Errorf("a writer: %v", err)
					}
				}
			}
		})
	}
	for range 2 {
		for rotating.keys().Pending() {
			now = now.Add(time.Second)
			if err := rotating.step(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := rotating.ring.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := rotating.ring.Rotate(t.Context()); !errs.Is(err, errs.Conflict) {
			t.Errorf("a rotation during another: %v, want Conflict", err)
		}
		if err := rotating.step(); err != nil || rotating.keys().Current().State != keyring.Current || len(rotating.keys().Keys) == 1 {
			t.Errorf("the new key is used before all processes know it: %v", err)
		}
		now = now.Add(11 * time.Second) // only the process that rotates looks at the clock
		if err := rotating.step(); err != nil {
			t.Fatal(err)
		}
	}
	for rotating.keys().Pending() {
		now = now.Add(time.Second)
		if err := rotating.step(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	serving.Wait()
	k := rotating.keys()
	if len(k.Keys) != 3 || k.Pending() {
		t.Errorf("keys %+v", k)
	}
	if _, err := store.Reseal(t.Context(), rotating.driver, rotating.ring.Sealer(), sealed); err != nil {
		t.Fatal(err)
	}
	if n := rotating.count(); len(n.Keys) != 1 || n.Plain != 0 {
		t.Errorf("sealed %+v, want one key", n)
	}
}

// A process that has not read the keys since another key is in use still seals with the former one. The rotation
// waits for such values too.
func TestARotationSealsWhatOthersSealWithTheFormerKeyMeanwhile(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	path, key := filepath.Join(t.TempDir(), "docs.db"), seal.NewKey()
	rotating, late := join(t, openStore(t, path), key, &now), join(t, openStore(t, path), key, &now)
	step := func(after time.Duration) {
		t.Helper()
		now = now.Add(after)
		if err := rotating.step(); err != nil {
			t.Fatal(err)
		}
	}
	late.write(1)
	step(0)
	first := rotating.keys().Current().ID
	if rotating.keys().Pending() {
		t.Error("the first key waits for a former one")
	}
	if _, err := rotating.ring.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	step(10 * time.Second) // the next key is in use
	step(time.Second)
	late.write(2)
	if n := rotating.count(); n.Keys[first] == 0 {
		t.Fatalf("sealed %+v: the late process does not use the former key", n)
	}
	step(time.Second)
	if !rotating.keys().Pending() {
		t.Error("the rotation has ended while others may still use the former key")
	}
	step(8 * time.Second)
	step(time.Second)
	if k, n := rotating.keys(), rotating.count(); k.Pending() || n.Keys[first] != 0 {
		t.Errorf("sealed %+v, keys %+v: want none with the former key", n, k)
	}
}

// A rewrap is one write. The former key-encryption key then opens nothing, and no value was touched.
func TestS22RewrapIsOneWrite(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	raw, old, next := openStore(t, filepath.Join(t.TempDir(), "docs.db")), seal.NewKey(), seal.NewKey()
	p := join(t, raw, old, &now)
	p.write(1)
	before, err := raw.Get(t.Context(), provider+"/clusters/1")
	if err != nil {
		t.Fatal(err)
	}
	doomed := join(t, &dying{Driver: raw}, old, &now)
	if _, err := doomed.ring.Rewrap(t.Context(), kek.Local(next)); !errors.Is(err, errDead) {
		t.Fatalf("a rewrap that is killed: %v", err)
	}
	if err := join(t, raw, old, &now).read(1); err != nil {
		t.Errorf("after a rewrap that was killed: %v", err)
	}
	k, err := p.ring.Rewrap(t.Context(), kek.Local(next))
	if err != nil || k.Keys[0].Wrapped.KEK != next.ID() {
		t.Fatalf("Rewrap = %+v, %v", k, err)
	}
	if err := errors.Join(p.read(1), join(t, raw, next, &now).read(1)); err != nil {
		t.Errorf("after the rewrap: %v", err)
	}
	err = keyring.New().Open(t.Context(), options(raw, old, &now))
	if !errors.Is(err, seal.ErrNoKey) || !strings.Contains(err.Error(), next.ID()) || !strings.Contains(err.Error(), old.ID()) {
		t.Errorf("a start with the former key: %v, want both ids", err)
	}
	after, err := raw.Get(t.Context(), provider+"/clusters/1")
	if err != nil || after.Tag != before.Tag || !bytes.Equal(after.Secret, before.Secret) {
		t.Errorf("the rewrap touched a document: %v", err)
	}
}

// What an older version sealed with the key of the file itself opens, and what it stored in clear is sealed.
func TestStoresOfOlderVersionsAreTakenOver(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	raw, key := openStore(t, filepath.Join(t.TempDir(), "docs.db")), seal.NewKey()
	older := store.New(raw, nil, seal.New(key))
	(&process{t: t, db: older}).write(1)
	stored, err := raw.Get(t.Context(), pairs+"1")
	if err != nil || !bytes.Contains(stored.Body, []byte("planted")) {
		t.Fatalf("the older version stores %s, %v", stored.Body, err)
	}
	for name, former := range map[string][]seal.Key{"no key": nil, "another key": {seal.NewKey()}} {
		o := options(raw, key, &now)
		o.Former = former
		if err := keyring.New().Open(t.Context(), o); !errors.Is(err, seal.ErrNoKey) || !strings.Contains(err.Error(), key.ID()) {
			t.Errorf("with %s: %v, want the id of the key", name, err)
		}
	}
	p := &process{t: t, driver: raw, ring: keyring.New(), now: &now}
	o := options(raw, seal.NewKey(), &now)
	o.Former = []seal.Key{seal.NewKey(), key}
	if err := p.ring.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	p.db = store.New(store.SealBodies(raw, p.ring.Sealer(), sealed), nil, p.ring.Sealer())
	if err := p.read(1); err != nil {
		t.Error(err)
	}
	if n := p.count(); n.Plain != 1 || n.Keys[key.ID()] != 1 {
		t.Errorf("before: %+v", n)
	}
	for range 2 { // the second finds nothing left
		if err := p.step(); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.count(); n.Plain != 0 || n.Keys[key.ID()] != 2 || p.keys().Pending() {
		t.Errorf("after: %+v", n)
	}
	stored, err = raw.Get(t.Context(), pairs+"1")
	if err != nil || bytes.Contains(stored.Body, []byte("planted")) || stored.Rev != 1 {
		t.Errorf("revision %d, sealed: %t, %v", stored.Rev, !bytes.Contains(stored.Body, []byte("planted")), err)
	}
	if err := p.read(1); err != nil {
		t.Error(err)
	}
}

// Two processes that start at the same time on an empty store have the same keys.
func TestTwoFirstStartsMakeOneKey(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	path, key := filepath.Join(t.TempDir(), "docs.db"), seal.NewKey()
	ids := make([]string, 4)
	var starts sync.WaitGroup
	for i := range ids {
		d := openStore(t, path)
		starts.Go(func() {
			r := keyring.New()
			if err := r.Open(t.Context(), options(d, key, &now)); err != nil {
				t.Error(err)
				return
			}
			k, err := r.Keys(t.Context())
			if err != nil {
				t.Error(err)
			}
			ids[i] = k.Current().ID
		})
	}
	starts.Wait()
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Errorf("ids %q", ids)
		}
	}
}
