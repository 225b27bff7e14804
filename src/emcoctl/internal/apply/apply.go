package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// apply creates the document, or updates the existing one:
//
//	POST 2xx                         created, or accepted for an action
//	POST 409, GET 200, the same      unchanged
//	POST 409, GET 200, different     PUT: configured
//	POST 409, GET 404                the refusal of the POST, such as a missing parent
//	POST 409, GET refused            the refusal of the GET: whether the document exists is not known
//	POST 409 of an action            unchanged if the status shows that it is done
func (e *Executor) apply(ctx context.Context, t documentRequest) output.Result {
	item, err := anchor.Item(t.call.Path, t.doc.Names)
	if err != nil {
		return e.fail(t, t.call.Path, err)
	}
	if anchor.IsAction(t.call.Path) {
		item = t.call.Path
	}
	req, err := e.request(t, t.call.Method, t.call.Path)
	if err != nil {
		return e.fail(t, item, err)
	}
	res, err := e.send(ctx, t, req)
	switch {
	case err != nil:
		return e.fail(t, item, err)
	case res.OK() && anchor.IsAction(t.call.Path):
		return e.accepted(ctx, t, res.Status)
	case res.OK():
		return e.done(t, item, output.Created, res.Status)
	case res.Status == http.StatusNotFound && e.failed[anchor.Parent(t.call.Path)]: // hidden from the caller
		return e.failNew(ctx, t, item, res.Err(req.Method, req.Path))
	case res.Status != http.StatusConflict || e.o.PostOnly:
		return e.fail(t, item, res.Err(req.Method, req.Path))
	case anchor.IsAction(t.call.Path):
		return e.checkState(ctx, t, res)
	}
	return e.reconcile(ctx, t, item, res)
}

// accepted returns the result of an accepted action, after the pauses that the user wants.
// A failure after that keeps the status 202.
func (e *Executor) accepted(ctx context.Context, t documentRequest, status int) output.Result {
	if err := e.pause(ctx, t, t.call.Path, status); err != nil {
		r := e.fail(t, t.call.Path, err)
		r.Status = status
		return r
	}
	return e.done(t, t.call.Path, output.Accepted, status)
}

// reconcile updates the stored document. refused is the answer 409 to the POST; it is the
// failure if no document of that name exists.
func (e *Executor) reconcile(ctx context.Context, t documentRequest, item string, refused *client.Response) output.Result {
	denied := refused.Err(http.MethodPost, t.call.Path)
	if item == t.call.Path {
		return e.fail(t, item, denied) // a document without a name
	}
	now, err := t.client.Do(ctx, client.Request{Method: http.MethodGet, Path: item, Accept: client.JSONType})
	if err != nil {
		return e.fail(t, item, err)
	}
	switch {
	case now.Status == http.StatusNotFound:
		return e.failNew(ctx, t, item, denied)
	case !now.OK():
		return e.fail(t, item, now.Err(http.MethodGet, item))
	}
	collection, moved := anchor.Collection(item), false
	if collection == "clusters" {
		t.doc.Body, moved = withLocation(t.doc.Body, now.Body)
	}
	like := compare(item, t.doc.Body, now.Body) // by path: two kinds of documents are in a collection provider-networks
	if like != different {
		like = max(like, e.compareFiles(ctx, t, item))
	}
	switch {
	case like == same:
		r := e.done(t, item, output.Unchanged, refused.Status)
		if moved {
			r.Note = item + " was moved since: the location of the document is not used; see emcoctl move --status"
		}
		return r
	case collection == "clusters" && !staysInPlace(t.doc.Body, now.Body):
		r := e.failInPlace(t, item, t.doc.Body, now.Body)
		r.Status = refused.Status
		return r
	}
	if e.o.Replacing != nil && like == different {
		e.o.Replacing(item)
	}
	r := e.replace(ctx, t, item, now)
	if r.Status == http.StatusMethodNotAllowed && like == undecided {
		r = e.done(t, item, output.Unchanged, r.Status)
		r.Note = "the server does not report whether it has this file, and does not replace it"
	}
	return r
}

// failNew returns the failure of a document that does not exist and cannot be created. If its parent does not exist
// because it failed in this run, the failure follows from that one.
func (e *Executor) failNew(ctx context.Context, t documentRequest, item string, err error) output.Result {
	r, parent := e.fail(t, item, err), anchor.Parent(t.call.Path)
	missing, unknown := e.missing(ctx, t, parent)
	switch {
	case unknown != nil: // the failure itself is clear enough
	case missing && e.failed[parent]:
		r.Below = parent
	case missing:
		r.Advice = fmt.Sprintf("create its parent and the documents that it refers to first; see: emcoctl get %s", parent)
	case errs.Is(err, errs.Conflict):
		r.Advice = "correct the document, or create what it refers to, and apply it again"
	}
	return r
}

// replace replaces now with the document. If the entity tag or the visible content stays
// the same, the document was unchanged: the client cannot compare secrets.
func (e *Executor) replace(ctx context.Context, t documentRequest, item string, now *client.Response) output.Result {
	req, err := e.request(t, http.MethodPut, item)
	if err != nil {
		return e.fail(t, item, err)
	}
	req.IfMatch = now.ETag()
	res, err := e.send(ctx, t, req)
	switch {
	case err != nil:
		return e.fail(t, item, err)
	case res.Status == http.StatusMethodNotAllowed:
		r := e.fail(t, item, inPlace(item))
		r.Status = res.Status
		r.Advice = "delete it and create it again: emcoctl delete " + item
		return r
	case !res.OK():
		r := e.fail(t, item, res.Err(req.Method, req.Path))
		switch {
		case res.Status == http.StatusPreconditionFailed:
			r.Advice = "someone else changed it at the same time; apply again"
		case res.Status == http.StatusConflict && anchor.Collection(item) == "deployment-intent-groups":
			r.Advice = "a group is fixed once it is approved: make a second group and migrate to it, or terminate and delete this one, then apply again"
		}
		return r
	case now.ETag() != "" && now.ETag() == res.ETag():
		return e.done(t, item, output.Unchanged, res.Status)
	case now.ETag() == "" && len(t.files()) == 0 && bytes.Equal(now.Body, res.Body) && !masked(now.Body):
		return e.done(t, item, output.Unchanged, res.Status)
	}
	return e.done(t, item, output.Configured, res.Status)
}

// update replaces the document without reading it.
func (e *Executor) update(ctx context.Context, t documentRequest) output.Result {
	req, err := e.request(t, t.call.Method, t.call.Path)
	if err != nil {
		return e.fail(t, t.call.Path, err)
	}
	res, err := e.send(ctx, t, req)
	if err == nil {
		err = res.Err(req.Method, req.Path)
	}
	if err != nil {
		return e.fail(t, t.call.Path, err)
	}
	if err := e.pause(ctx, t, t.call.Path, res.Status); err != nil {
		return e.fail(t, t.call.Path, err)
	}
	return e.done(t, t.call.Path, output.Configured, res.Status)
}

// delete removes the document, or terminates the deployment that it instantiated.
func (e *Executor) delete(ctx context.Context, t documentRequest) output.Result {
	path := t.call.Path
	if t.doc.At.File == "" {
		if err := deletable(path); err != nil {
			return e.fail(t, path, err)
		}
	}
	res, err := e.send(ctx, t, client.Request{Method: t.call.Method, Path: path})
	if err != nil {
		return e.fail(t, path, err)
	}
	terminating := t.call.Method == http.MethodPost
	switch {
	case res.OK() && terminating:
		return e.accepted(ctx, t, res.Status)
	case res.OK():
		if err := e.pause(ctx, t, path, res.Status); err != nil {
			return e.fail(t, path, err)
		}
		return e.done(t, path, output.Deleted, res.Status)
	case res.Status == http.StatusNotFound && e.o.IgnoreMissing:
		return e.done(t, path, output.Absent, res.Status)
	case res.Status == http.StatusConflict && terminating:
		return e.checkState(ctx, t, res)
	}
	return e.fail(t, path, res.Err(t.call.Method, path))
}

var errAction = errors.New("this is an action; to end a deployment, apply its \"terminate\"")

var errCollection = errors.New("this is a whole collection; name one item")

// deletable refuses an anchor on the command line that is not one item.
func deletable(path string) error {
	switch {
	case anchor.IsAction(path):
		return errs.E(errs.Invalid, "delete", path, errAction)
	case anchor.IsCollection(path):
		return errs.E(errs.Invalid, "delete", path, errCollection)
	}
	return nil
}

// get reads the stored document.
func (e *Executor) get(ctx context.Context, t documentRequest) output.Result {
	path := t.call.Path
	req := client.Request{Method: http.MethodGet, Path: path}
	if anchor.WantsJSON(path) {
		req.Accept = client.JSONType
	}
	res, err := e.send(ctx, t, req)
	if err == nil {
		err = res.Err(req.Method, path)
	}
	if err != nil {
		return e.fail(t, path, err)
	}
	r := e.done(t, path, output.Fetched, res.Status)
	r.Body = res.Body
	if e.o.SortBy != "" {
		k, _ := kind.At(path)
		if r.Body, err = output.Sort(res.Body, "."+strings.TrimPrefix(e.o.SortBy, "."), k.Members); err != nil {
			return e.fail(t, path, err)
		}
	}
	return r
}
