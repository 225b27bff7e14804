// Package documenttally counts the documents of the store by kind, for metrics alone. It reads all of them once, and then what
// changes. The counts are some seconds old, so no decision may rest on them.
package documenttally

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	interval = 5 * time.Second // between two questions about changes
	patience = time.Minute     // for the store to answer
)

// Kind is a kind of documents that is counted.
type Kind struct {
	Name string // "composite_app"
	path []string
}

// Kinds returns the kinds that are counted.
func Kinds() []Kind {
	const app = "projects/*/composite-apps/*/*"
	kind := func(name, path string) Kind { return Kind{name, strings.Split(path, "/")} }
	return []Kind{
		kind("project", "projects/*"),
		kind("logical_cloud", "projects/*/logical-clouds/*"),
		kind("composite_app", app),
		kind("app", app+"/apps/*"),
		kind("deployment_intent_group", app+"/deployment-intent-groups/*"),
		kind("cluster_provider", "cluster-providers/*"),
		kind("cluster", "cluster-providers/*/clusters/*"),
		kind("controller", "controllers/*"),
		kind("clm_controller", "clm-controllers/*"),
		kind("dtc_controller", "dtc-controllers/*"),
	}
}

// roots are the collections that the kinds are in or below.
var roots = []store.Key{"projects", "cluster-providers", "controllers", "clm-controllers", "dtc-controllers"}

// Tally is safe for use by many goroutines. Make it with New.
type Tally struct {
	db    *store.DB
	log   *slog.Logger
	kinds []Kind
	seed  maphash.Seed

	mark  int64           // of the changes that have been read; only the goroutine of Run
	known map[uint64]bool // hashes of the keys that are counted; nil: nothing was read yet; only the goroutine of Run

	mu     sync.Mutex
	counts []int // by kind; nil: nothing was read yet; guarded by mu
}

// New returns a tally of what the store holds, which knows nothing before it runs.
func New(db *store.DB, log *slog.Logger) *Tally {
	return &Tally{db: db, log: log, kinds: Kinds(), seed: maphash.MakeSeed()}
}

// Counts returns the documents by the name of their kind; nothing before the first reading is complete.
func (t *Tally) Counts() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]int{}
	for i, n := range t.counts {
		out[t.kinds[i].Name] = n
	}
	return out
}

// Name is "document tally".
func (t *Tally) Name() string { return "document tally" }

// Ready is nil: only metrics need the tally.
func (t *Tally) Ready() error { return nil }

// Run follows the store until ctx ends.
func (t *Tally) Run(ctx context.Context) error {
	failed := false
	for ctx.Err() == nil {
		err := t.update(ctx)
		if err != nil && ctx.Err() == nil && !failed {
			t.log.Warn("documents not counted; the metrics of the inventory stay as they are until the store answers", "err", err)
		}
		failed = err != nil
		_ = pause.For(ctx, interval)
	}
	return nil
}

// update reads what has changed since the last call. The mark moves when all of it was read.
func (t *Tally) update(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the store did not answer within "+patience.String()))
	defer cancel()
	ctx = readpoint.With(ctx)
	changes, err := t.db.Changes(ctx, t.mark)
	if err != nil {
		return err
	}
	if t.known == nil || changes.All {
		err = t.readAll(ctx)
	} else {
		err = t.readSome(ctx, changes.Keys)
	}
	if err == nil {
		t.mark = changes.Mark
	}
	return err
}

func (t *Tally) readAll(ctx context.Context) error {
	known, counts := map[uint64]bool{}, make([]int, len(t.kinds))
	for _, root := range roots {
		for doc, err := range t.db.List(ctx, root, store.Query{}) {
			if err != nil {
				return err
			}
			if kind, h := t.kindOf(doc.Key), t.hash(doc.Key); kind >= 0 && !known[h] {
				known[h] = true
				counts[kind]++
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known, t.counts = known, counts
	return nil
}

func (t *Tally) readSome(ctx context.Context, keys []store.Key) error {
	slices.Sort(keys)
	counted := slices.DeleteFunc(slices.Compact(keys), func(k store.Key) bool { return t.kindOf(k) < 0 })
	exists := map[store.Key]bool{}
	for doc, err := range t.db.GetEach(ctx, counted) {
		if err != nil {
			return err
		}
		exists[doc.Key] = true
	}
	for _, k := range counted {
		t.note(t.kindOf(k), t.hash(k), exists[k])
	}
	return nil
}

// note counts a document that has come or gone.
func (t *Tally) note(kind int, h uint64, exists bool) {
	if t.known[h] == exists {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if exists {
		t.known[h] = true
		t.counts[kind]++
	} else {
		delete(t.known, h)
		t.counts[kind]--
	}
}

// hash stands for a key: of a million keys, two fall together with a chance of one in thirty million.
func (t *Tally) hash(k store.Key) uint64 { return maphash.String(t.seed, string(k)) }

// kindOf returns the index of a document's kind; -1 if it is not counted.
func (t *Tally) kindOf(k store.Key) int {
	segments := strings.Split(string(k), "/")
	return slices.IndexFunc(t.kinds, func(kind Kind) bool {
		return slices.EqualFunc(kind.path, segments, func(pattern, s string) bool { return pattern == "*" || pattern == s })
	})
}
