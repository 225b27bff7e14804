package appcontext

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Fault is one contradiction in the AppContext.
type Fault struct {
	Subject string // a deployment, or a content
	Reason  string
}

const restore = "restore the AppContext from a backup"

// CheckContent returns content that revisions and pairs need and that is missing or damaged, and
// pairs of deployments that no head owns, in order of subjects. It only reads. The caches
// of a store that was just opened are empty, so all content is read.
func (s *Store) CheckContent(ctx context.Context) ([]Fault, error) {
	c := &contentCheck{s: s, bundles: map[Digest]string{}, owned: map[v2.DeploymentID]bool{}, unowned: map[v2.DeploymentID]int{}}
	for _, phase := range []func(context.Context) error{c.readHeads, c.readPairs, c.checkBundles} {
		if err := phase(ctx); err != nil {
			return nil, err
		}
	}
	for _, d := range slices.Sorted(maps.Keys(c.unowned)) {
		c.fault("deployment "+string(d), "%d apps on clusters belong to no head, so nothing will remove them: restore the AppContext from a backup, or remove their objects yourself", c.unowned[d])
	}
	slices.SortStableFunc(c.faults, func(a, b Fault) int {
		if a.Subject < b.Subject {
			return -1
		}
		return 1
	})
	return c.faults, nil
}

// contentCheck is one run of CheckContent; only its goroutine uses it.
type contentCheck struct {
	s       *Store
	bundles map[Digest]string // needed bundles, with one that needs each
	owned   map[v2.DeploymentID]bool
	unowned map[v2.DeploymentID]int // pairs
	faults  []Fault
}

func (c *contentCheck) fault(subject, format string, args ...any) {
	c.faults = append(c.faults, Fault{subject, fmt.Sprintf(format, args...)})
}

func (c *contentCheck) need(by string, bundles ...Digest) {
	for _, d := range bundles {
		if d != "" && c.bundles[d] == "" {
			c.bundles[d] = by
		}
	}
}

func (c *contentCheck) readHeads(ctx context.Context) error {
	for h, err := range c.s.Heads(ctx) {
		if err != nil {
			return err
		}
		c.owned[h.Deployment()] = true
		desired := h.Rev == 0
		for rev, err := range c.s.Revisions(ctx, h.UID) {
			if err != nil {
				return err
			}
			desired = desired || rev.Number == h.Rev
			if err := c.readRevision(ctx, h, rev); err != nil {
				return err
			}
		}
		if !desired {
			c.fault(h.Document, "the desired revision %d is missing: update the deployment", h.Rev)
		}
	}
	return nil
}

func (c *contentCheck) readRevision(ctx context.Context, h Head, rev Revision) error {
	by := fmt.Sprintf("revision %d of %s", rev.Number, h.Document)
	for _, app := range rev.Apps {
		c.need(by, app.Bundles...)
	}
	places, err := c.s.Placements(ctx, h.UID, rev.Number)
	if errs.Is(err, errs.NotFound) || errs.Is(err, errs.Internal) {
		c.fault(h.Document, "the placements of revision %d cannot be read: %v: %s", rev.Number, err, restore)
		return nil
	}
	for _, p := range places {
		c.need(by, slices.Collect(maps.Values(p.Apps))...)
	}
	return err
}

func (c *contentCheck) readPairs(ctx context.Context) error {
	for p, err := range c.s.Pairs(ctx) {
		if err != nil {
			return err
		}
		by := fmt.Sprintf("app %s of deployment %s on %s", p.Key.App, p.Key.Deployment, p.Key.Cluster)
		c.need(by, p.Desired, p.Applied)
		c.need(by, p.Held...)
		if !c.owned[p.Key.Deployment] && p.Desired != "" {
			c.unowned[p.Key.Deployment]++
		}
	}
	return nil
}

// checkBundles reads all needed bundles, and looks for their content.
func (c *contentCheck) checkBundles(ctx context.Context) error {
	objects := map[Digest]string{}
	for _, d := range slices.Sorted(maps.Keys(c.bundles)) {
		by := c.bundles[d]
		b, err := c.s.GetBundle(ctx, d)
		switch {
		case errs.Is(err, errs.NotFound), errs.Is(err, errs.Internal):
			c.fault("content "+string(d), "%s needs it: %v: %s", by, err, restore)
		case err != nil:
			return err
		}
		for _, r := range slices.Concat(b.Objects, b.CRDs) {
			objects[r.Digest] = by
		}
		for _, h := range b.Hooks {
			objects[h.Digest] = by
		}
	}
	missing, err := c.s.Missing(ctx, slices.Sorted(maps.Keys(objects)))
	for _, d := range missing {
		c.fault("content "+string(d), "%s needs it, and it is missing: %s", objects[d], restore)
	}
	return err
}
