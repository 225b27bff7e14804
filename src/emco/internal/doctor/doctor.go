// Package doctor compares the documents with the AppContext while an installation is stopped, for emco doctor.
package doctor

import (
	"context"
	"fmt"
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

// Check compares the stores, and reports each contradiction with its subject. It repairs nothing.
func Check(ctx context.Context, s Stores, report func(subject, fault string)) error {
	c := checker{stores: s, report: report}
	for _, check := range []func(context.Context) error{c.heads, c.content, c.packages} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// checker is one run of the checks.
type checker struct {
	stores Stores
	report func(subject, fault string)
}

func (c *checker) fault(subject, format string, args ...any) {
	c.report(subject, fmt.Sprintf(format, args...))
}

// heads looks for deployments without documents, and for times in the future.
func (c *checker) heads(ctx context.Context) error {
	now := time.Now()
	for h, err := range c.stores.Contexts.Heads(ctx) {
		if err != nil {
			return err
		}
		doc, err := c.stores.Documents.Get(ctx, store.Key(h.Document))
		switch {
		case errs.Is(err, errs.NotFound):
			c.fault(h.Document, "it is deployed as %s, and has no document: restore the documents, or what runs stays as it is", h.Deployment())
			continue
		case err != nil:
			return err
		case doc.UID != string(h.UID):
			c.fault(h.Document, "its document is another one of the same name: it has the id %s, and %s is deployed", doc.UID, h.UID)
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
