// Package doctor looks for contradictions between the documents, the AppContext and the Git branches, for emco doctor and
// emcoctl doctor, which asks its Routes. It repairs nothing; each fault says what to do.
package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// aheadLimit is how far a stored time may be in the future without a report.
const aheadLimit = 5 * time.Minute

// Stores are the stores of an installation.
type Stores struct {
	Contexts  *appcontext.Store
	Documents *store.DB
}

// Report takes a fault and its subject.
type Report func(subject, fault string)

// Check compares the stores of an installation that is stopped, and reads all content.
func Check(ctx context.Context, s Stores, report Report) error {
	c := checker{stores: s, report: report}
	return c.run(ctx, c.heads, c.lostHeads, c.owners, c.times, c.content, c.packages)
}

// Compare makes those checks that are right while EMCO runs, and whose cost does not grow with the content: documents and
// heads, and owners of work.
func Compare(ctx context.Context, s Stores, report Report) error {
	c := checker{stores: s, report: report}
	return c.run(ctx, c.heads, c.lostHeads, c.owners)
}

// checker is one run of the checks.
type checker struct {
	stores Stores
	report Report
}

func (c *checker) run(ctx context.Context, checks ...func(context.Context) error) error {
	for _, check := range checks {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) fault(subject, format string, args ...any) {
	c.report(subject, fmt.Sprintf(format, args...))
}

// heads looks for deployments without documents.
func (c *checker) heads(ctx context.Context) error {
	for h, err := range c.stores.Contexts.Heads(ctx) {
		if err != nil {
			return err
		}
		doc, err := c.stores.Documents.Get(ctx, store.Key(h.Document))
		if err != nil && !errs.Is(err, errs.NotFound) {
			return err
		}
		if err == nil && doc.UID == string(h.UID) {
			continue
		}
		now, unread := c.stores.Contexts.Head(ctx, h.UID)
		switch {
		case errs.Is(unread, errs.NotFound), unread == nil && now.Document != h.Document: // it was deleted meanwhile
		case unread != nil:
			return unread
		case err != nil:
			c.fault(h.Document, "it is deployed as %s, and has no document: restore the documents, or what runs stays as it is", h.Deployment())
		default:
			c.fault(h.Document, "its document is another one of the same name: it has the id %s, and %s is deployed; restore the documents", doc.UID, h.UID)
		}
	}
	return nil
}

// lostHeads looks for documents that were deployed, and whose heads are missing. Documents that were never deployed have none.
func (c *checker) lostHeads(ctx context.Context) error {
	lost := map[string]string{} // what happened last, by id
	for id, err := range c.stores.Contexts.Recorded(ctx) {
		if err != nil {
			return err
		}
		if _, err = c.stores.Contexts.Head(ctx, id); err == nil {
			continue
		}
		if !errs.Is(err, errs.NotFound) {
			return err
		}
		actions, err := c.stores.Contexts.History(ctx, id)
		if err != nil {
			return err
		}
		if n := len(actions); n > 0 { // else it was deleted meanwhile
			lost[string(id)] = fmt.Sprintf("%s at %s", actions[n-1].State, actions[n-1].Time.UTC().Format(time.RFC3339))
		}
	}
	if len(lost) == 0 {
		return nil
	}
	for doc, err := range c.stores.Documents.List(ctx, "", store.Query{}) {
		if err != nil {
			return err
		}
		if last, found := lost[doc.UID]; found {
			c.fault(string(doc.Key), "its head is missing, and its history ends with %s: nothing changes or removes what it put on clusters. Restore the AppContext from a backup", last)
			delete(lost, doc.UID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(lost)) {
		c.fault("deployment "+id, "it has neither a head nor a document, and its history ends with %s: nothing removes what it put on clusters. Restore both stores from a backup", lost[id])
	}
	return nil
}

// owners looks for members and owners of shards that have gone.
func (c *checker) owners(ctx context.Context) error {
	stale, err := c.stores.Contexts.FindStale(ctx)
	for _, s := range stale {
		c.fault(s.Key, "%s", s.Reason)
	}
	return err
}

// times looks for actions in the future.
func (c *checker) times(ctx context.Context) error {
	now := time.Now()
	for h, err := range c.stores.Contexts.Heads(ctx) {
		if err != nil {
			return err
		}
		actions, err := c.stores.Contexts.History(ctx, h.UID)
		if err != nil {
			return err
		}
		if n := len(actions); n > 0 && actions[n-1].Time.After(now.Add(aheadLimit)) {
			c.fault(h.Document, "its last action is from %s, which is in the future: compare the clocks", actions[n-1].Time.Format(time.RFC3339))
		}
	}
	return nil
}

// content looks for missing and damaged content.
func (c *checker) content(ctx context.Context) error {
	faults, err := c.stores.Contexts.CheckContent(ctx)
	for _, f := range faults {
		c.fault(f.Subject, "%s", f.Reason)
	}
	return err
}

// packages looks for uploads that documents name.
func (c *checker) packages(ctx context.Context) error {
	for doc, err := range c.stores.Documents.List(ctx, "", store.Query{}) {
		if err != nil {
			return err
		}
		for _, b := range doc.Blobs {
			r, err := c.stores.Documents.OpenBlob(ctx, b.Digest)
			switch {
			case errs.Is(err, errs.NotFound):
				c.fault(string(doc.Key), "its package %s is missing: upload it again", b.Digest)
			case err != nil:
				return err
			default:
				_ = r.Close()
			}
		}
	}
	return nil
}
