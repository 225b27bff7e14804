package apply

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// DryRun selects an apply that changes nothing.
type DryRun string

// The dry runs.
const (
	NoDryRun     DryRun = ""
	ClientDryRun DryRun = "client" // checks the documents by the server's rules, and asks no server
	ServerDryRun DryRun = "server" // also compares them with the server's documents
)

// dryRun returns the result that apply would have.
func (e *Executor) dryRun(ctx context.Context, t documentRequest) output.Result {
	item, err := anchor.Item(t.call.Path, t.doc.Names)
	if err == nil {
		err = check(t)
	}
	if err == nil {
		_, err = e.request(t, t.call.Method, t.call.Path) // looks at the files
	}
	if err != nil {
		return e.markDryRun(e.fail(t, item, err))
	}
	switch {
	case e.o.DryRun == ClientDryRun:
		return e.markDryRun(e.done(t, item, output.Valid, 0))
	case anchor.IsAction(item):
		return e.markDryRun(e.dryRunAction(ctx, t))
	}
	return e.markDryRun(e.dryRunDocument(ctx, t, item))
}

func (e *Executor) markDryRun(r output.Result) output.Result {
	r.DryRun = true
	return r
}

// check checks a document by the server's rules for its kind.
func check(t documentRequest) error {
	k, ok := kind.At(t.call.Path)
	if !ok || k.Check == nil || t.call.Empty || anchor.IsAction(t.call.Path) {
		return nil
	}
	return k.Check(t.doc.Body)
}

// dryRunDocument compares the document with the server's. A new one needs its parent, on the
// server or earlier in the files.
func (e *Executor) dryRunDocument(ctx context.Context, t documentRequest, item string) output.Result {
	d, err := e.Compare(ctx, t.doc)
	isCluster := anchor.Collection(item) == "clusters"
	switch {
	case err != nil:
		return e.fail(t, item, err)
	case d.Outcome == output.Configured && isCluster && !staysInPlace(d.Local, d.Server):
		return e.failInPlace(t, item, t.doc.Body, d.Server)
	case d.Outcome != output.Created && e.o.PostOnly:
		return e.fail(t, item, errs.E(errs.Exists, "create", item, errExists))
	case d.Outcome == output.Created:
		parent := anchor.Parent(t.call.Path)
		switch missing, err := e.missing(ctx, t, parent); {
		case err != nil:
			return e.fail(t, item, err)
		case missing:
			return e.failNew(ctx, t, item, errMissing(parent))
		}
	}
	note := ""
	if d.Outcome == output.Unchanged && isCluster && len(t.files()) > 0 {
		note = "the kubeconfig is not compared: the server does not show credentials"
	}
	parentIsNew := slices.Contains(e.changed, anchor.Parent(t.call.Path))
	if d.Outcome != output.Unchanged && !parentIsNew && e.hasDryRuns(ctx, t) {
		refused := e.sendDryRun(ctx, t, item, d.Outcome)
		switch {
		case refused == nil:
		case len(e.changed) == 0 || client.StatusOf(refused) == 0:
			return e.fail(t, item, refused)
		default: // the server does not have what this run would have changed before
			note = fmt.Sprintf("the server refuses %s before the documents above it are applied: %s", item, refused)
		}
	}
	r := e.done(t, item, d.Outcome, 0)
	r.Note = note
	return r
}

// hasDryRuns reports whether the server has dry runs of documents. Older ones ignore the
// parameter, and would carry the request out. So it asks for one that none can carry out: a
// dry run of an invalid kind that deletes a document of a random name.
func (e *Executor) hasDryRuns(ctx context.Context, t documentRequest) bool {
	if has, known := e.serverDryRuns[t.client]; known {
		return has
	}
	path := t.call.Path + "/" + rand.Text() + "?dryRun=probe"
	res, err := t.client.Do(ctx, client.Request{Method: http.MethodDelete, Path: path, Accept: client.JSONType})
	if err != nil {
		return false
	}
	e.serverDryRuns[t.client] = res.Status == http.StatusBadRequest && strings.Contains(string(res.Body), "dryRun")
	return e.serverDryRuns[t.client]
}

// sendDryRun sends a document for a dry run. The error is the server's refusal.
func (e *Executor) sendDryRun(ctx context.Context, t documentRequest, item string, outcome output.Outcome) error {
	method, path := http.MethodPost, t.call.Path
	if outcome == output.Configured {
		method, path = http.MethodPut, item
	}
	r, err := e.request(t, method, path)
	if err != nil {
		return err
	}
	separator := "?"
	if strings.Contains(r.Path, "?") {
		separator = "&"
	}
	r.Path += separator + "dryRun=true"
	res, err := t.client.Do(ctx, r)
	if err == nil {
		err = res.Err(method, path)
	}
	return err
}

var errExists = errors.New("exists already")

// dryRunAction returns unchanged for an action that is done already.
func (e *Executor) dryRunAction(ctx context.Context, t documentRequest) output.Result {
	path, base := t.call.Path, anchor.Parent(t.call.Path)
	missing, err := e.missing(ctx, t, base)
	if err == nil && missing {
		err = errMissing(base)
	}
	if err != nil {
		return e.fail(t, path, err)
	}
	now, err := client.Get[deploymentState](ctx, t.client, base+"/status?output=summary")
	if err == nil && !now.failed() && slices.Contains(doneStates[anchor.Last(path)], now.state()) {
		return e.done(t, path, output.Unchanged, 0)
	}
	return e.done(t, path, output.Accepted, 0)
}

// missing reports whether a document is neither on the server nor created by this run. One that the caller may not read
// counts as present: the caller may be allowed to create documents below it.
func (e *Executor) missing(ctx context.Context, t documentRequest, path string) (bool, error) {
	if path == "" || slices.Contains(e.changed, path) {
		return false, nil
	}
	if missing, known := e.absent[path]; known {
		return missing, nil
	}
	_, err := t.client.Ask(ctx, client.Request{Method: http.MethodGet, Path: path, Accept: client.JSONType})
	missing := errs.Is(err, errs.NotFound)
	if err != nil && !missing && !errs.Is(err, errs.Forbidden) {
		return false, err
	}
	e.absent[path] = missing
	return missing, nil
}

// errMissing is the failure of a document whose parent is missing.
func errMissing(parent string) error {
	return errs.E(errs.Conflict, "find", parent, errors.New("it is neither on the server nor earlier in the files"))
}
