// Package generation detects that only one of the two stores, documents or AppContext, was restored from a
// backup. Both hold the same generation: its number and a random token. Every few minutes, and after each
// backup, the next generation begins in both stores. So a store from a backup has an older generation than the other one.
//
// A generation begins in three steps. Each replaces one record if it is as it was read: the AppContext announces
// it, the documents hold it, the AppContext holds it. After each step, the stores belong together.
package generation

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Stores are the two stores of an installation.
type Stores struct {
	Documents store.Driver
	Contexts  *appcontext.Store
}

// Apart is the error of stores that are of different generations.
type Apart struct {
	Documents, Contexts appcontext.Generation
}

// Error names the store that was restored.
func (a *Apart) Error() string {
	why := "one of them was restored from a backup and used without the other one"
	switch {
	case a.Documents.Number < a.Contexts.Number:
		why = "the documents were restored from an older backup, or emptied"
	case a.Documents.Number > a.Contexts.Number:
		why = "the AppContext was restored from an older backup, or emptied"
	}
	return fmt.Sprintf("the documents are of generation %s, the AppContext of generation %s: %s", shown(a.Documents), shown(a.Contexts), why)
}

func shown(g appcontext.Generation) string {
	if g.IsZero() {
		return "0"
	}
	return fmt.Sprintf("%d (begun %s)", g.Number, g.Begun.UTC().Format(time.RFC3339))
}

// storedGenerations is what the stores hold at one moment.
type storedGenerations struct {
	doc       store.Doc // of the documents' generation
	documents appcontext.Generation
	contexts  appcontext.Generations
}

// readAttempts bounds how often the stores are read again because a generation begins meanwhile.
const readAttempts = 10

func (s Stores) read(ctx context.Context) (p storedGenerations, err error) {
	if p.contexts, err = s.Contexts.Generations(ctx); err != nil {
		return p, err
	}
	for range readAttempts {
		p.documents = appcontext.Generation{}
		if p.doc, err = store.Generation(ctx, s.Documents); err != nil {
			return p, err
		}
		if p.doc.Rev > 0 {
			if err := json.Unmarshal(p.doc.Body, &p.documents); err != nil {
				return p, errs.E(errs.Internal, "read", "the generation of the documents", err)
			}
		}
		before := p.contexts.Mod
		if p.contexts, err = s.Contexts.Generations(ctx); err != nil || p.contexts.Mod == before {
			return p, err
		}
	}
	return p, errs.New(errs.Unavailable, "generations of the stores begin faster than they are read")
}

func same(a, b appcontext.Generation) bool { return a.Number == b.Number && a.Token == b.Token }

// check returns an Apart if the stores do not belong together.
func (p storedGenerations) check() error {
	next := p.contexts.Next
	if same(p.documents, p.contexts.Generation) || !next.IsZero() && same(p.documents, next) {
		return nil
	}
	return &Apart{Documents: p.documents, Contexts: p.contexts.Generation}
}

// Compare returns an Apart if the stores are of different generations. Stores of older versions have none.
func (s Stores) Compare(ctx context.Context) error {
	p, err := s.read(ctx)
	if err != nil {
		return err
	}
	return p.check()
}

// Advance begins a generation, or completes one that a process left half-way. It returns an Apart, and changes nothing, if the
// stores are of different generations. It does nothing if another process is faster.
func (s Stores) Advance(ctx context.Context, now time.Time) error {
	p, err := s.read(ctx)
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return err
	}
	_, err = s.begin(ctx, p, now)
	return err
}

// Adopt joins stores of different generations in a new one. Where the AppContext is the older store, the numbers of
// revisions jump: those after its backup were given. No process may run; the error is Conflict if one was faster, and the
// stores are still of different generations.
func (s Stores) Adopt(ctx context.Context, now time.Time) error {
	p, err := s.read(ctx)
	if err != nil {
		return err
	}
	if p.documents.Number > p.contexts.Number {
		for h, err := range s.Contexts.Heads(ctx) {
			if err == nil {
				err = s.Contexts.SkipRevisions(ctx, h.UID, h.LastRev)
			}
			if err != nil {
				return err
			}
		}
	}
	if p.check() != nil {
		p.contexts.Next = appcontext.Generation{}
	}
	done, err := s.begin(ctx, p, now)
	if err != nil || done {
		return err
	}
	err = s.Compare(ctx)
	if _, apart := errors.AsType[*Apart](err); apart {
		return errs.E(errs.Conflict, "adopt", "the stores", fmt.Errorf("another process changes their generations at the same time; stop all processes, and adopt them again: %w", err))
	}
	return err
}

// begin takes the steps that are left of the next generation; done is false if another process was faster at one of them.
func (s Stores) begin(ctx context.Context, p storedGenerations, now time.Time) (done bool, err error) {
	next := p.contexts.Next
	if next.IsZero() {
		next = appcontext.Generation{Number: max(p.documents.Number, p.contexts.Number) + 1, Token: rand.Text(), Begun: now.UTC().Truncate(time.Second)}
		announced, ok, err := s.Contexts.SetGenerations(ctx, p.contexts, appcontext.Generations{Generation: p.documents, Next: next})
		if err != nil || !ok {
			return false, err
		}
		p.contexts = announced
	}
	if !same(p.documents, next) {
		body, err := json.Marshal(next)
		if err != nil {
			return false, err
		}
		err = store.PutGeneration(ctx, s.Documents, p.doc, body)
		if errs.Is(err, errs.Conflict) || errs.Is(err, errs.Exists) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	_, done, err = s.Contexts.SetGenerations(ctx, p.contexts, appcontext.Generations{Generation: next})
	return done, err
}
