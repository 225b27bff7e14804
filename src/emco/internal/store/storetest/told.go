package storetest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"golang.org/x/sync/errgroup"
)

// told holds for drivers that are followers: whoever reads again what Changes names knows each
// acknowledged write after the next question, while others write through both handles and some of
// their calls are cut off.
func told(ctx context.Context, p pair) error {
	if _, ok := p.Driver.(store.Follower); !ok {
		return nil
	}
	readers := []*reader{{p: p, from: p.Driver}, {p: p, from: p.other}}
	var g errgroup.Group
	for i := range 4 {
		w := toldWriter{p: p, to: []store.Driver{p.Driver, p.other}[i%2], readers: readers, random: rand.New(rand.NewPCG(1, uint64(i)))}
		g.Go(func() error { return w.run(ctx, fmt.Sprint("writer", i)) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, r := range readers {
		if err := r.atRest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reader keeps the tags of documents in memory, as the inventory does.
type reader struct {
	p    pair
	from store.Driver

	mu    sync.Mutex
	mark  int64               // guarded by mu
	known map[store.Key]int64 // guarded by mu
}

// ask reads what has changed, and returns the tag of a document; 0 if it is absent.
func (r *reader) ask(ctx context.Context, k store.Key) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.askLocked(ctx)
	return r.known[k], err
}

func (r *reader) askLocked(ctx context.Context) error {
	c, err := r.from.(store.Follower).Changes(ctx, r.mark)
	if err != nil {
		return err
	}
	r.mark = c.Mark
	if c.All {
		r.known, err = tags(ctx, r.from, r.p.root)
		return err
	}
	for _, k := range c.Keys {
		d, err := r.from.Get(ctx, k)
		switch {
		case errs.Is(err, errs.NotFound):
			delete(r.known, k)
		case err != nil:
			return err
		default:
			r.known[k] = d.Tag
		}
	}
	return nil
}

// atRest compares what is known with a list. A write that was cut off may still arrive.
func (r *reader) atRest(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for try := 0; ; try++ {
		if err := r.askLocked(ctx); err != nil {
			return err
		}
		want, err := tags(ctx, r.from, r.p.root)
		if err != nil || maps.Equal(r.known, want) {
			return err
		}
		if try == 100 {
			return fmt.Errorf("who follows changes knows the tags %v, a list says %v", r.known, want)
		}
		if err := tick(ctx); err != nil {
			return err
		}
	}
}

func tags(ctx context.Context, d store.Driver, under store.Key) (map[store.Key]int64, error) {
	out := map[store.Key]int64{}
	for doc, err := range d.List(ctx, under, store.Query{}) {
		if err != nil {
			return nil, err
		}
		out[doc.Key] = doc.Tag
	}
	return out, nil
}

// toldWriter writes documents that are its own.
type toldWriter struct {
	p       pair
	to      store.Driver
	readers []*reader
	random  *rand.Rand
}

func (w toldWriter) run(ctx context.Context, name string) error {
	const keys, writes = 3, 40
	for range writes {
		k := fmt.Sprint(name, "/", w.random.IntN(keys))
		tag, acknowledged, err := w.write(ctx, k)
		if err != nil {
			return err
		}
		if !acknowledged {
			continue
		}
		for i, r := range w.readers {
			if got, err := r.ask(ctx, w.p.key(k)); err != nil || got != tag {
				return fmt.Errorf("reader %d knows %s with the tag %d, %w; the acknowledged write has %d", i, k, got, err, tag)
			}
		}
	}
	return nil
}

// write changes a document once; some writes are cut off. tag is 0 for a removal.
func (w toldWriter) write(ctx context.Context, k string) (tag int64, acknowledged bool, err error) {
	old, err := w.to.Get(ctx, w.p.key(k))
	if err != nil && !errs.Is(err, errs.NotFound) {
		return 0, false, err
	}
	if w.random.IntN(4) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(w.random.IntN(3000))*time.Microsecond)
		defer cancel()
	}
	if old.Tag != 0 && w.random.IntN(3) == 0 {
		err = w.to.Remove(ctx, old.Key, old.Tag)
	} else {
		tag = 1 + w.random.Int64N(1<<62)
		err = w.to.Put(ctx, store.Doc{Key: w.p.key(k), Tag: tag}, old.Tag)
	}
	switch {
	case err == nil:
		return tag, true, nil
	case errs.Is(err, errs.Unavailable), errs.Is(err, errs.Conflict), errs.Is(err, errs.Exists): // a write that was cut off came late
		return 0, false, nil
	}
	return 0, false, err
}
