package httpstatus

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

const (
	writers  = 3               // transactions under way at a time
	maxTries = 5               // of a claim that others overtake
	recheck  = time.Minute     // what is known of a cluster's registration is looked at again
	reread   = time.Second     // what is known of its tokens likewise, if one does not fit
	readers  = 16              // clusters that are looked up at a time
	patience = 2 * time.Second // with those that are looked up before
	gap      = time.Second / 5 // between two reports of a cluster, in the long run
	burst    = 50              // reports of a cluster that may come at once
	gather   = 200 * time.Millisecond
)

// Desk writes down what agents said. It keeps what is known of each agent, and writes what
// waits for it together with what waits for others; of several reports of one agent the
// last. Make it with NewDesk.
type Desk struct {
	book    Book
	fleet   Fleet
	options Options
	reading chan struct{} // bounds the lookups
	wake    chan struct{}

	mu      sync.Mutex
	places  map[string]*place
	ready   []*place // with something to write and nothing under way
	waiting int      // claims that somebody waits for
	signs   map[string]sign
	open    bool
}

// place is where the reports of one cluster wait.
type place struct {
	agent    appcontext.Agent // as it was in etcd last
	identity string           // of the cluster's registration; empty: nobody may report here
	checked  time.Time        // when both were read
	paid     time.Time        // until then reports are paid for, see gap

	pending, flying *load
}

// load is what is written of an agent in one go.
type load struct {
	words  appcontext.Words
	claims []*claim
}

// sign is a sign of life that came another way.
type sign struct {
	seq uint64
	at  time.Time
}

// NewDesk returns a desk. It takes nothing before Run.
func NewDesk(b Book, f Fleet, o Options) *Desk {
	return &Desk{
		book: b, fleet: f, options: o.withDefaults(), reading: make(chan struct{}, readers), wake: make(chan struct{}, 1),
		places: map[string]*place{}, signs: map[string]sign{},
	}
}

// Name is "reports".
func (d *Desk) Name() string { return "reports" }

// Ready is always nil: what cannot be written is refused.
func (d *Desk) Ready() error { return nil }

// Run writes until ctx ends. What waits then is refused.
func (d *Desk) Run(ctx context.Context) error {
	d.mu.Lock()
	d.open = true
	d.mu.Unlock()
	var all sync.WaitGroup
	for range writers {
		all.Go(func() { d.write(ctx) })
	}
	all.Go(func() { d.confirm(ctx) })
	all.Wait()
	d.shut()
	return nil
}

// shut refuses all that waits.
func (d *Desk) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open, d.ready = false, nil
	for _, p := range d.places {
		if p.pending != nil {
			d.answer(p.pending, closed())
			p.pending = nil
		}
	}
}

func closed() error { return later("the program is stopping") }

// later is an answer that asks to come back after some seconds, not all at the same time.
func later(why string) error {
	return &errs.Error{Kind: errs.Unavailable, Op: "take", Subject: "report", Err: errors.New(why), After: time.Second + rand.N(4*time.Second)}
}

// Take returns once a claim is written down. Unavailable, with the time to come back, if it
// cannot be now; it may be written nevertheless if etcd did not answer.
func (d *Desk) Take(ctx context.Context, c *claim) error {
	if err := d.submit(c); err != nil {
		return err
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return errs.E(errs.Unavailable, "take", "report of "+c.cluster, ctx.Err())
	}
}

func (d *Desk) submit(c *claim) error {
	c.done = make(chan error, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.places[c.cluster]
	switch {
	case !d.open:
		return closed()
	case p == nil:
		return errDenied // it was there when the request was admitted
	case d.waiting >= d.options.Queue:
		return later("too many reports wait to be written")
	}
	return d.put(p, c)
}

// put adds a claim to what waits at a place. d.mu is held.
func (d *Desk) put(p *place, c *claim) error {
	w, err := c.on(p.base())
	if err != nil {
		return err
	}
	if p.pending == nil {
		p.pending = &load{}
		if p.flying == nil {
			d.ready = append(d.ready, p)
			d.poke()
		}
	} else if w.Said == nil {
		w.Said = p.pending.words.Said
	}
	p.pending.words = w
	p.pending.claims = append(p.pending.claims, c)
	if c.key != nil {
		d.waiting++
	}
	return nil
}

// base is what will be known of the agent when all that waits is written.
func (p *place) base() appcontext.Agent {
	switch {
	case p.pending != nil:
		return p.pending.words.Agent
	case p.flying != nil:
		return p.flying.words.Agent
	}
	return p.agent
}

func (d *Desk) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// write writes what is ready, until ctx ends.
func (d *Desk) write(ctx context.Context) {
	for ctx.Err() == nil {
		places, words := d.next()
		if len(places) == 0 {
			select {
			case <-ctx.Done():
			case <-d.wake:
			}
			continue
		}
		now, ok, err := d.book.Hear(ctx, words)
		d.settle(places, now, ok, err)
	}
}

// next takes what fits into one transaction.
func (d *Desk) next() (places []*place, words []appcontext.Words) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ops, bytes := 0, 0
	for len(d.ready) > 0 {
		p := d.ready[0]
		p.pending.words.Old = p.agent.Parts
		o, b := p.pending.words.Weight()
		if ops, bytes = ops+o, bytes+b; len(places) > 0 && (ops > appcontext.MaxWords || bytes > appcontext.MaxWordsBytes) {
			d.poke() // for another writer
			break
		}
		d.ready = d.ready[1:]
		places, words = append(places, p), append(words, p.launch())
	}
	return places, words
}

// launch puts what waits under way, on top of what is there now.
func (p *place) launch() appcontext.Words {
	w := &p.pending.words
	w.Agent.Mod, w.Agent.Parts, w.Old = p.agent.Mod, p.agent.Parts, p.agent.Parts
	p.flying, p.pending = p.pending, nil
	return *w
}

// settle notes what became of a transaction.
func (d *Desk) settle(places []*place, now []appcontext.Agent, ok bool, err error) {
	if err != nil {
		d.options.Log.Warn("reports cannot be written", "reports", len(places), "err", err)
		err = later("they cannot be written now")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, p := range places {
		switch {
		case err != nil:
			d.lose(p, err)
		case ok:
			p.agent = now[i]
			d.answer(p.flying, nil)
			p.flying = nil
			d.again(p)
		default:
			p.agent = now[i]
			d.retry(p)
		}
	}
	if len(d.ready) > 0 {
		d.poke()
	}
}

// lose refuses all that waits at a place of which nobody knows what is written.
func (d *Desk) lose(p *place, err error) {
	d.answer(p.flying, err)
	if p.pending != nil {
		d.answer(p.pending, err)
	}
	p.flying, p.pending, p.checked = nil, nil, time.Time{}
}

func (d *Desk) again(p *place) {
	if p.pending != nil {
		d.ready = append(d.ready, p)
	}
}

// retry asks the claims of a place again, of which somebody else has written something.
func (d *Desk) retry(p *place) {
	claims := p.flying.claims
	if p.pending != nil {
		claims = append(claims, p.pending.claims...)
	}
	p.flying, p.pending = nil, nil
	for _, c := range claims {
		if c.key != nil {
			d.waiting--
		}
		c.tries++
		err := later("others report for the same cluster all the time")
		if c.tries < maxTries {
			err = d.put(p, c)
		}
		if err != nil {
			c.done <- err
		}
	}
}

// answer tells those who wait for a load.
func (d *Desk) answer(l *load, err error) {
	for _, c := range l.claims {
		if c.key != nil {
			d.waiting--
		}
		c.done <- err
	}
}

// Heard writes down, soon, that the agent of a cluster lives: it said so another way. It
// does not wait; what cannot be written is left.
func (d *Desk) Heard(cluster string, seq uint64, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at.After(d.signs[cluster].at) {
		d.signs[cluster] = sign{seq, at}
	}
}

// confirm writes down signs of life, those together that came together, until ctx ends.
func (d *Desk) confirm(ctx context.Context) {
	tick := time.NewTicker(gather)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		d.mu.Lock()
		signs := d.signs
		d.signs = map[string]sign{}
		d.mu.Unlock()
		if err := d.learn(ctx, signs); err != nil {
			d.options.Log.Warn("signs of life cannot be written", "clusters", len(signs), "err", err)
			continue
		}
		d.mu.Lock()
		for cluster, s := range signs {
			c := &claim{cluster: cluster, report: status.Report{Cluster: cluster, Seq: s.seq}, received: s.at, done: make(chan error, 1)}
			_ = d.put(d.places[cluster], c) // one that is older than what is known is no news
		}
		d.mu.Unlock()
	}
}

// learn reads what is known of agents that have no place yet.
func (d *Desk) learn(ctx context.Context, signs map[string]sign) error {
	var missing []string
	d.mu.Lock()
	for cluster := range signs {
		if p := d.places[cluster]; p == nil {
			missing = append(missing, cluster)
		}
	}
	d.mu.Unlock()
	agents, err := d.book.AgentsOf(ctx, missing)
	if err != nil {
		return err
	}
	known := map[string]appcontext.Agent{}
	for _, a := range agents {
		known[a.Cluster] = a
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, cluster := range missing {
		if d.places[cluster] == nil {
			a := known[cluster]
			a.Cluster = cluster
			d.places[cluster] = &place{agent: a}
		}
	}
	return nil
}
