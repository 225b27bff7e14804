package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/diskspace"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// aheadLimit is how far a stored time may be in the future before the doctor names it.
const aheadLimit = 5 * time.Minute

// doctor compares the stores of an installation. It repairs nothing; opening the stores does what a
// start does, which completes writes that a crash interrupted.
type doctor struct {
	out    io.Writer
	stores openStores
	faults int
}

// doctorCommand checks the stores while emco does not run, and prints one line for each contradiction.
func doctorCommand(args []string, std IO) int {
	c, code := load(args, std, func(text string) { _, _ = fmt.Fprintln(std.Err, "emco: warning:", text) })
	if code != exitOK || c == nil {
		return code
	}
	d := &doctor{out: std.Out}
	if err := d.run(context.Background(), *c); err != nil {
		_, _ = fmt.Fprintln(std.Err, "emco:", err)
		return exitFailed
	}
	if d.faults > 0 {
		_, _ = fmt.Fprintf(std.Out, "%d faults; docs/guides/backup.md says how to restore\n", d.faults)
		return exitFailed
	}
	_, _ = fmt.Fprintln(std.Out, "the stores agree")
	return exitOK
}

func (d *doctor) run(ctx context.Context, c config.Config) (err error) {
	if _, err := os.Stat(c.Data); err != nil {
		return fmt.Errorf("data folder: %w", err) // a start would create it
	}
	log := slog.New(slog.DiscardHandler)
	a := &App{log: log}
	defer func() { err = errors.Join(err, a.close()) }()
	p, err := readParts(c)
	if err != nil {
		return err
	}
	a.onClose(p.azure.Close)
	a.disk = diskspace.New(diskspace.Options{Dir: c.Data, Bytes: 0, OnProbe: func(int64) {}, Log: log})
	if d.stores, err = a.openStores(ctx, c, p, newMetrics()); err != nil {
		return err
	}
	for _, check := range []func(context.Context) error{d.heads, d.content, d.packages} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *doctor) fault(subject, format string, args ...any) {
	d.faults++
	_, _ = fmt.Fprintf(d.out, "%s: %s\n", subject, fmt.Sprintf(format, args...))
}

// heads looks for deployments without documents, and for times in the future.
func (d *doctor) heads(ctx context.Context) error {
	now := time.Now()
	for h, err := range d.stores.contexts.Heads(ctx) {
		if err != nil {
			return err
		}
		doc, err := d.stores.db.Get(ctx, store.Key(h.Subject))
		switch {
		case errs.Is(err, errs.NotFound):
			d.fault(h.Subject, "it is deployed as %s, and has no document: restore the documents, or what runs stays as it is", h.Deployment())
			continue
		case err != nil:
			return err
		case doc.UID != string(h.UID):
			d.fault(h.Subject, "its document is another one of the same name: it has the id %s, and %s is deployed", doc.UID, h.UID)
		}
		actions, err := d.stores.contexts.Actions(ctx, h.UID)
		if err != nil {
			return err
		}
		if n := len(actions); n > 0 && actions[n-1].Time.After(now.Add(aheadLimit)) {
			d.fault(h.Subject, "its last action is from %s, which is in the future: compare the clocks", actions[n-1].Time.Format(time.RFC3339))
		}
	}
	return nil
}

// content looks for missing and damaged content.
func (d *doctor) content(ctx context.Context) error {
	faults, err := d.stores.contexts.CheckContent(ctx)
	for _, f := range faults {
		d.fault(f.Subject, "%s", f.Reason)
	}
	return err
}

// packages looks for uploads that documents name.
func (d *doctor) packages(ctx context.Context) error {
	for doc, err := range d.stores.db.List(ctx, "", store.Query{}) {
		if err != nil {
			return err
		}
		for _, b := range doc.Blobs {
			r, err := d.stores.db.OpenBlob(ctx, b.Digest)
			switch {
			case errs.Is(err, errs.NotFound):
				d.fault(string(doc.Key), "its package %s is missing: upload it again", b.Digest)
			case err != nil:
				return err
			default:
				_ = r.Close()
			}
		}
	}
	return nil
}
