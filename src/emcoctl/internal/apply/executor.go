// Package apply sends documents to the server: it applies, updates, reads and deletes them
// one after the other and reports the result of each. It also makes dry runs of apply, and compares documents
// with the server's. With a document it sends the files that the document names.
package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/config"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/document"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// Options configure an Executor.
type Options struct {
	Servers       config.Servers
	Client        client.Options // Servers has the addresses
	Printer       output.Printer
	Stop          bool          // stop at the first refusal; an unreachable server or an unreadable file always stops the run
	Pause         time.Duration // to sleep after each answer 202
	DryRun        DryRun        // of Apply: change nothing
	SortBy        string        // the path that orders the items of a list that is read
	Strict        bool          // the server refuses members that it does not know
	PostOnly      bool          // do not change what exists: a 409 is a failure, as in upstream's client
	IgnoreMissing bool          // deleting a missing document is no failure
	// Replacing, if not nil, is called before a document is replaced, with its path.
	Replacing func(path string)
	// Accepted, if not nil, is called after the server accepted an action, with the path of
	// its subject. Its error makes the action fail.
	Accepted func(ctx context.Context, c *client.Client, path, action string) error
}

// tokens is the collection of API tokens.
const tokens = "tokens"

// Executor works on one list of documents. It is not for concurrent use.
type Executor struct {
	o             Options
	clients       map[config.Address]*client.Client
	serverDryRuns map[*client.Client]bool // whether servers have dry runs of documents
	changed       []string                // paths created or configured so far
	failed        map[string]bool         // paths that failed so far
	absent        map[string]bool         // whether the server lacks a document, by its path, of those that were asked for
}

// New returns an executor.
func New(o Options) *Executor {
	return &Executor{o: o, clients: map[config.Address]*client.Client{}, serverDryRuns: map[*client.Client]bool{}, failed: map[string]bool{}, absent: map[string]bool{}}
}

// documentRequest is a document with its request.
type documentRequest struct {
	verb   anchor.Verb
	doc    document.Document
	call   anchor.Call
	client *client.Client
}

// Run does verb for all documents: in order, for Delete in reverse. Documents that
// upstream EMCO skips for the verb are skipped. Anchors and addresses are checked before
// the first request. The error is a *Failures if documents failed.
func (e *Executor) Run(ctx context.Context, verb anchor.Verb, docs []document.Document) error {
	tasks, failed := e.plan(verb, docs)
	if failed != nil {
		return failed
	}
	if verb == anchor.Delete {
		if err := e.checkDeletions(ctx, tasks); err != nil {
			return err
		}
	}
	return e.work(ctx, tasks)
}

// checkDeletions asks the server whether it would delete the documents that others among the tasks are below: these come first, and
// would be gone when it refuses. It asks nothing if a deployment is terminated, because the answers change then.
func (e *Executor) checkDeletions(ctx context.Context, tasks []documentRequest) error {
	if slices.ContainsFunc(tasks, func(t documentRequest) bool { return t.call.Method != http.MethodDelete }) {
		return nil
	}
	for _, t := range tasks {
		below := func(other documentRequest) bool { return strings.HasPrefix(other.call.Path, t.call.Path+"/") }
		if !slices.ContainsFunc(tasks, below) {
			continue
		}
		res, err := e.send(ctx, t, client.Request{Method: http.MethodDelete, Path: t.call.Path + "?dryRun=true"})
		if err != nil || res.Status != http.StatusConflict {
			continue // the deletion itself meets the same fault
		}
		if err := res.Err(http.MethodDelete, t.call.Path); !slices.ContainsFunc(orderOfDeletions, func(text string) bool { return strings.Contains(err.Error(), text) }) {
			r := e.fail(t, t.call.Path, err)
			r.Advice = "nothing was deleted; do first what the reason asks for"
			return e.refused(r)
		}
	}
	return nil
}

// orderOfDeletions are upstream's sentences about documents that must be deleted before.
var orderOfDeletions = []string{"Cannot delete parent without deleting child references first", "Cannot delete without deleting or updating referencing resources first"}

// Anchor does verb for one anchor as it is, without the rules for documents.
func (e *Executor) Anchor(ctx context.Context, verb anchor.Verb, path string) error {
	method := map[anchor.Verb]string{anchor.Apply: http.MethodPost, anchor.Get: http.MethodGet, anchor.Delete: http.MethodDelete}[verb]
	t := documentRequest{verb: verb, doc: document.Document{Anchor: path}, call: anchor.Call{Method: method, Path: path, Empty: true}}
	c, err := e.client(path)
	if err != nil {
		return e.refuse(t, err)
	}
	t.client = c
	return e.work(ctx, []documentRequest{t})
}

// plan resolves all documents.
func (e *Executor) plan(verb anchor.Verb, docs []document.Document) ([]documentRequest, error) {
	tasks := make([]documentRequest, 0, len(docs))
	for _, doc := range docs {
		t := documentRequest{verb: verb, doc: doc, call: anchor.Call{Path: doc.Anchor}}
		c, err := e.client(doc.Anchor)
		if err == nil {
			t.client = c
			t.call, err = anchor.Resolve(verb, doc.Anchor, doc.Names)
		}
		if err == nil && verb == anchor.Apply && t.call.Path == tokens {
			err = errs.New(errs.Invalid, "an API token is shown once, and apply does not print it; make it with: emcoctl auth token create "+doc.Names.Name)
		}
		if err != nil {
			t.call.Path = doc.Anchor
			return nil, e.refuse(t, err)
		}
		if !t.call.Skip() {
			tasks = append(tasks, t)
		}
	}
	if verb == anchor.Delete {
		slices.Reverse(tasks)
	}
	return tasks, nil
}

// refuse reports a document that cannot be sent.
func (e *Executor) refuse(t documentRequest, err error) error {
	return e.refused(e.fail(t, t.call.Path, err))
}

// refused reports why nothing was sent.
func (e *Executor) refused(r output.Result) error {
	e.o.Printer.Done(r)
	return &Failures{Results: []output.Result{r}}
}

// work does the tasks and collects failures. It stops at the first refusal if the user
// wants that, and at the first failure without an answer of the server: the next task would
// fail for the same reason.
func (e *Executor) work(ctx context.Context, tasks []documentRequest) error {
	var failures Failures
	for i, t := range tasks {
		r := e.do(ctx, t)
		e.o.Printer.Done(r)
		if r.Outcome != output.Failed {
			continue
		}
		failures.Results = append(failures.Results, r)
		e.failed[r.Path] = true
		if e.o.Stop || client.StatusOf(r.Err) == 0 && !e.ownFault(ctx, r) {
			failures.Left = len(tasks) - i - 1
			break
		}
	}
	if len(failures.Results) == 0 {
		return nil
	}
	return &failures
}

// ownFault reports whether a failure is the document's alone: it cannot be changed in place, or
// a dry run has found it.
func (e *Executor) ownFault(ctx context.Context, r output.Result) bool {
	return errors.Is(r.Err, errInPlace) || e.o.DryRun != NoDryRun && ctx.Err() == nil && !errs.Is(r.Err, errs.Unavailable)
}

// do carries out one task.
func (e *Executor) do(ctx context.Context, t documentRequest) output.Result {
	switch t.verb {
	case anchor.Apply:
		if e.o.DryRun != NoDryRun {
			return e.dryRun(ctx, t)
		}
		return e.apply(ctx, t)
	case anchor.Update:
		return e.update(ctx, t)
	case anchor.Delete:
		return e.delete(ctx, t)
	}
	return e.get(ctx, t)
}

// client returns the client for an anchor's address.
func (e *Executor) client(path string) (*client.Client, error) {
	address, err := e.o.Servers.For(path)
	if err != nil {
		return nil, err
	}
	if c, ok := e.clients[address]; ok {
		return c, nil
	}
	o := e.o.Client
	o.BaseURL, o.CAFile = address.URL, address.CAFile
	c, err := client.New(o)
	if err == nil {
		e.clients[address] = c
	}
	return c, err
}

// send sends a request of a task, and shows it.
func (e *Executor) send(ctx context.Context, t documentRequest, r client.Request) (*client.Response, error) {
	res, err := t.client.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	e.o.Printer.Called(output.Call{Method: r.Method, URL: t.client.URL(r.Path), Status: res.Status, Body: res.Body})
	return res, nil
}

// request builds the request of a task, with its file or files if it has any.
func (e *Executor) request(t documentRequest, method, path string) (client.Request, error) {
	r := client.Request{Method: method, Path: path}
	if t.call.Empty {
		return r, nil
	}
	r.Accept = client.JSONType
	if e.o.Strict && !anchor.IsAction(path) {
		r.Path += "?strict=true"
	}
	files := t.files()
	if len(files) == 0 {
		r.Body = client.JSON(t.doc.Body)
		return r, nil
	}
	body, err := client.Multipart(t.doc.Body, files...)
	r.Body = body
	return r, err
}

// files lists the files of a document: one under upstream's constant name, or several under
// their own.
func (t documentRequest) files() []client.File {
	if t.doc.File != "" {
		return []client.File{client.OneFile(t.doc.File)}
	}
	files := make([]client.File, len(t.doc.Files))
	for i, path := range t.doc.Files {
		files[i] = client.File{Part: client.FilesPart, Name: filepath.Base(path), Path: path}
	}
	return files
}

// result starts a result for a path.
func (t documentRequest) result(path string) output.Result {
	return output.Result{Verb: t.verb, Path: path, At: t.doc.At}
}

// fail returns the result of a failed task.
func (e *Executor) fail(t documentRequest, path string, err error) output.Result {
	r := t.result(path)
	r.Outcome, r.Err, r.Status = output.Failed, err, client.StatusOf(err)
	if meant, ok := kind.Suggest(path); ok && (r.Status == http.StatusNotFound || r.Status == http.StatusMethodNotAllowed) {
		r.Advice = fmt.Sprintf("the server has no such collection or action; did you mean %q?", meant)
	}
	if e.o.Servers.PerService() && errs.Is(err, errs.Unavailable) && r.Status == 0 && output.NextOfTLS(err) == "" {
		r.Advice = "start the server: emco listens on one port for all services, or with -http.emcoPorts on those of upstream's"
	}
	return r
}

// done returns the result of a successful task, and records what it changed.
func (e *Executor) done(t documentRequest, path string, outcome output.Outcome, status int) output.Result {
	r := t.result(path)
	r.Outcome, r.Status = outcome, status
	if outcome == output.Created || outcome == output.Configured {
		e.changed = append(e.changed, path)
	}
	return r
}

// pause waits after an answer 202: for the time of Options.Pause, then for Options.Accepted.
func (e *Executor) pause(ctx context.Context, t documentRequest, path string, status int) error {
	if status != http.StatusAccepted {
		return nil
	}
	if e.o.Pause > 0 {
		timer := time.NewTimer(e.o.Pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if e.o.Accepted != nil {
		return e.o.Accepted(ctx, t.client, anchor.Parent(path), anchor.Last(path))
	}
	return nil
}

// Failures is the error of a run with failed documents.
type Failures struct {
	Results []output.Result
	Left    int // documents not tried because of Stop, or of an unreachable server
}

// Error counts them.
func (f *Failures) Error() string {
	text := fmt.Sprintf("%d failed", len(f.Results))
	if f.Left > 0 {
		text += fmt.Sprintf(", %d not tried", f.Left)
	}
	return text
}

// Unwrap returns the errors of all results.
func (f *Failures) Unwrap() []error {
	all := make([]error, len(f.Results))
	for i, r := range f.Results {
		all[i] = r.Err
	}
	return all
}

// errInPlace is why a document cannot be configured.
var errInPlace = errors.New("exists with another content, and the server cannot change it in place")

// inPlace returns the failure of a document that differs and cannot be replaced.
func inPlace(path string) error { return errs.E(errs.Conflict, "apply", path, errInPlace) }
