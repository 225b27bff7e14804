// Package rest has a typed method for each route of the REST API that programs call: documents, actions and queries. It
// has none for the routes of agents, of Git servers' webhooks, of browsers and of load balancers.
// Package client sends the requests.
//
//	app, err := rest.Apps.Get(ctx, c, "shop", "web", "v1", "frontend")
//	plan, err := rest.UpdateDeployment.DryRun(ctx, c, client.None, nil, "shop", "web", "v1", "prod")
//
// The last arguments are names: they fill the variables of the route's path, from left to right.
package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Operation is a method of a route.
type Operation struct {
	Method   string
	Path     string // with its variables, below /v2
	Document string // the type of the documents in package v2; empty for a route that is no document
	// Answer returns what a successful answer to a request with a query is read into; nil if it is not JSON.
	Answer func(query url.Values) reflect.Type
}

// always is the Answer of a route whose answers have one type.
func always[T any](url.Values) reflect.Type { return reflect.TypeFor[T]() }

// Route is what All lists.
type Route interface{ Operations() []Operation }

// pageSize is how many documents a list requests at a time.
const pageSize = 500

// Fixed are the documents of type T in one collection that cannot be replaced.
type Fixed[T any] struct{ collection, item string }

// Operations lists the routes.
func (d Fixed[T]) Operations() []Operation {
	document := reflect.TypeFor[T]().Name()
	return []Operation{
		{http.MethodPost, d.collection, document, always[T]},
		{http.MethodGet, d.collection, document, always[[]T]},
		{http.MethodGet, d.path(), document, always[T]},
		{http.MethodDelete, d.path(), document, always[client.NoContent]},
	}
}

func (d Fixed[T]) path() string { return d.collection + "/" + d.item }

// Get reads a document. The names are those of its path.
func (d Fixed[T]) Get(ctx context.Context, c *client.Client, names ...string) (T, error) {
	doc, _, err := d.read(ctx, c, names)
	return doc, err
}

// read reads a document with its entity tag.
func (d Fixed[T]) read(ctx context.Context, c *client.Client, names []string) (doc T, tag string, err error) {
	path, err := fill(d.path(), names)
	if err != nil {
		return doc, "", err
	}
	res, err := c.Ask(ctx, client.Request{Method: http.MethodGet, Path: path, Accept: client.JSONType})
	if err != nil {
		return doc, "", err
	}
	err = res.Decode(&doc)
	return doc, res.ETag(), err
}

// update reads a document, changes it, and stores it with its files if it is still the one that was read.
func (d Fixed[T]) update(ctx context.Context, c *client.Client, change func(*T) error, files []client.File, names []string) (T, error) {
	doc, tag, err := d.read(ctx, c, names)
	if err != nil {
		return doc, err
	}
	path, err := fill(d.path(), names)
	if err != nil {
		return doc, err
	}
	if tag == "" {
		return doc, errs.E(errs.Malformed, "update", path, errors.New("the server gave no ETag, and an update without one could undo another's change; replace the document instead"))
	}
	if err := change(&doc); err != nil {
		return doc, err
	}
	return client.Send[T](ctx, c, client.Request{Method: http.MethodPut, Path: path, IfMatch: tag}, doc, files...)
}

// All reads the documents of a collection, in pages. The names are those of the collection's path. It ends with an
// error.
func (d Fixed[T]) All(ctx context.Context, c *client.Client, names ...string) iter.Seq2[T, error] {
	return pages(ctx, c, d.collection, names, func(res *client.Response) (docs []T, err error) {
		err = res.Decode(&docs)
		return docs, err
	})
}

// pages reads the elements of a list, in pages.
func pages[E any](ctx context.Context, c *client.Client, collection string, names []string, decode func(*client.Response) ([]E, error)) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		var zero E
		path, err := fill(collection, names)
		if err != nil {
			yield(zero, err)
			return
		}
		page := url.Values{"limit": {strconv.Itoa(pageSize)}}
		for {
			res, err := c.Ask(ctx, client.Request{Method: http.MethodGet, Path: withQuery(path, page), Accept: client.JSONType})
			var elements []E
			if err == nil {
				elements, err = decode(res)
			}
			if err != nil {
				yield(zero, err)
				return
			}
			for _, e := range elements {
				if !yield(e, nil) {
					return
				}
			}
			token := res.Header.Get("X-Continue")
			if token == "" {
				return
			}
			page.Set("continue", token)
		}
	}
}

// Create creates a document in the collection that the names give, and returns what the server stored.
func (d Fixed[T]) Create(ctx context.Context, c *client.Client, doc T, names ...string) (T, error) {
	path, err := fill(d.collection, names)
	if err != nil {
		return doc, err
	}
	return client.Post[T](ctx, c, path, doc)
}

// Delete deletes a document.
func (d Fixed[T]) Delete(ctx context.Context, c *client.Client, names ...string) error {
	path, err := fill(d.path(), names)
	if err != nil {
		return err
	}
	return c.Delete(ctx, path)
}

// Documents are the documents of type T in one collection.
type Documents[T any] struct{ Fixed[T] }

// Operations lists the routes.
func (d Documents[T]) Operations() []Operation {
	return append(d.Fixed.Operations(), Operation{http.MethodPut, d.path(), reflect.TypeFor[T]().Name(), always[T]})
}

// Replace replaces a document, whatever it is now, and returns what the server stored.
func (d Documents[T]) Replace(ctx context.Context, c *client.Client, doc T, names ...string) (T, error) {
	path, err := fill(d.path(), names)
	if err != nil {
		return doc, err
	}
	return client.Put[T](ctx, c, path, doc)
}

// Update reads a document, calls change, and stores the result. The error is Conflict if the document has changed
// meanwhile: call Update again.
func (d Documents[T]) Update(ctx context.Context, c *client.Client, change func(*T) error, names ...string) (T, error) {
	return d.update(ctx, c, change, nil, names)
}

// Files are documents of type T that come with files: one, or several for customizations. Create is for documents
// without files.
type Files[T any] struct{ Fixed[T] }

// Operations lists the routes.
func (d Files[T]) Operations() []Operation { return Documents[T](d).Operations() }

// Upload creates a document with its files.
func (d Files[T]) Upload(ctx context.Context, c *client.Client, doc T, files []client.File, names ...string) (T, error) {
	return d.send(ctx, c, http.MethodPost, d.collection, doc, files, names)
}

// Exchange replaces a document and all its files, whatever they are now. Without files, it has none afterwards.
func (d Files[T]) Exchange(ctx context.Context, c *client.Client, doc T, files []client.File, names ...string) (T, error) {
	return d.send(ctx, c, http.MethodPut, d.path(), doc, files, names)
}

// Update reads a document, calls change, and stores the result with files in place of all its files. The error is
// Conflict as for Documents. The caller gives the files because the server does not show all of them: it hides secrets.
func (d Files[T]) Update(ctx context.Context, c *client.Client, change func(*T) error, files []client.File, names ...string) (T, error) {
	return d.update(ctx, c, change, files, names)
}

// Download calls each for every file of a document, with the name that was given at the upload. The server hides
// secrets in files.
func (d Files[T]) Download(ctx context.Context, c *client.Client, each func(name string, content io.Reader) error, names ...string) error {
	path, err := fill(d.path(), names)
	if err != nil {
		return err
	}
	r := client.Request{Method: http.MethodGet, Path: path, Accept: "multipart/form-data"}
	res, err := c.Parts(ctx, r, func(p *multipart.Part) error {
		if name := p.FormName(); name != client.FilePart && name != client.FilesPart { // the document
			return nil
		}
		return each(p.FileName(), p)
	})
	if err != nil {
		return err
	}
	return res.Err(r.Method, r.Path) // a document without files comes as JSON
}

func (d Files[T]) send(ctx context.Context, c *client.Client, method, template string, doc T, files []client.File, names []string) (T, error) {
	path, err := fill(template, names)
	if err != nil {
		return doc, err
	}
	return client.Send[T](ctx, c, client.Request{Method: method, Path: path}, doc, files...)
}

// groupIntents have a list that holds no documents.
type groupIntents struct{ Documents[v2.GroupIntent] }

// groupIntentList is the list.
type groupIntentList struct {
	Intent []map[string]string `json:"intent"`
}

// Operations lists the routes.
func (d groupIntents) Operations() []Operation {
	all := d.Documents.Operations()
	for i, op := range all {
		if op.Method == http.MethodGet && op.Path == d.collection {
			all[i].Answer = always[groupIntentList]
		}
	}
	return all
}

// All reads the intents of a group. The server leaves their names out of the list.
func (d groupIntents) All(ctx context.Context, c *client.Client, names ...string) iter.Seq2[v2.GroupIntentSpec, error] {
	return pages(ctx, c, d.collection, names, func(res *client.Response) ([]v2.GroupIntentSpec, error) {
		var list groupIntentList
		if err := res.Decode(&list); err != nil {
			return nil, err
		}
		specs := make([]v2.GroupIntentSpec, len(list.Intent))
		for i, intent := range list.Intent {
			specs[i].Intent = intent
		}
		return specs, nil
	})
}

// Call is a route that is no document and may change something: it takes In (client.NoContent for no body) and
// answers Out (client.NoContent for nothing).
type Call[In, Out any] struct{ method, path string }

// CallOptions belong to one request of a call.
type CallOptions struct {
	Query url.Values // nil for none
	Key   string     // the server acts once on requests with the same key; without one, an event that is delivered again acts again
}

// Operations lists the route.
func (a Call[In, Out]) Operations() []Operation {
	return []Operation{{a.method, a.path, "", always[Out]}}
}

// Do sends the call.
func (a Call[In, Out]) Do(ctx context.Context, c *client.Client, in In, o CallOptions, names ...string) (Out, error) {
	return send[In, Out](ctx, c, client.Request{Method: a.method, Key: o.Key}, a.path, in, o.Query, names)
}

// Action is an action of something with a lifecycle: it takes In (client.NoContent for no body), and a dry run
// answers Preview.
type Action[In, Preview any] struct{ path string }

// ActionOptions belong to one request of an action.
type ActionOptions struct {
	Reason string // for the history
	Key    string // the server acts once on requests with the same key
	IfPlan string // the digest of the plan that the action must carry out
	Force  bool   // where the action knows it
}

// Operations lists the route.
func (a Action[In, Preview]) Operations() []Operation {
	return []Operation{{http.MethodPost, a.path, "", answerOrPreview[int64, Preview]}}
}

// answerOrPreview is the Answer of a route with dry runs.
func answerOrPreview[Out, Preview any](query url.Values) reflect.Type {
	if query.Get("dryRun") == "true" {
		return reflect.TypeFor[Preview]()
	}
	return reflect.TypeFor[Out]()
}

// Do requests the action. It returns the number of the revision if the server answers one, as it does for an update.
func (a Action[In, Preview]) Do(ctx context.Context, c *client.Client, in In, o ActionOptions, names ...string) (revision int64, err error) {
	return send[In, int64](ctx, c, client.Request{Method: http.MethodPost, Key: o.Key, IfPlan: o.IfPlan}, a.path, in, o.query(), names)
}

// DryRun returns what the action would do. query may be nil.
func (a Action[In, Preview]) DryRun(ctx context.Context, c *client.Client, in In, query url.Values, names ...string) (out Preview, err error) {
	if query.Get("output") == byClasses {
		return out, errs.E(errs.Invalid, "dry run", a.path, errors.New("output=classes has another answer; call Classes"))
	}
	return dryRun[In, Preview](ctx, c, a.path, in, query, names)
}

// PlannedAction is an action whose dry run answers a plan.
type PlannedAction[In any] struct{ Action[In, v2.Plan] }

// Operations lists the route.
func (a PlannedAction[In]) Operations() []Operation {
	return []Operation{{http.MethodPost, a.path, "", func(query url.Values) reflect.Type {
		if query.Get("output") == byClasses {
			return reflect.TypeFor[v2.PlanClasses]()
		}
		return answerOrPreview[int64, v2.Plan](query)
	}}}
}

// byClasses is the output of a plan without its clusters and objects, which PlanClusters and PlanDiff read.
const byClasses = "classes"

// Classes returns what the action would do, by classes of clusters with the same change. The server keeps the plan for
// PlanClusters and PlanDiff, which take the digest without "sha256:" and the ID of a class. query may be nil.
func (a PlannedAction[In]) Classes(ctx context.Context, c *client.Client, in In, query url.Values, names ...string) (v2.PlanClasses, error) {
	with := url.Values{}
	maps.Copy(with, query)
	with.Set("output", byClasses)
	return dryRun[In, v2.PlanClasses](ctx, c, a.path, in, with, names)
}

func dryRun[In, Out any](ctx context.Context, c *client.Client, template string, in In, query url.Values, names []string) (Out, error) {
	with := url.Values{}
	maps.Copy(with, query)
	with.Set("dryRun", "true")
	return send[In, Out](ctx, c, client.Request{Method: http.MethodPost}, template, in, with, names)
}

func (o ActionOptions) query() url.Values {
	q := url.Values{}
	if o.Reason != "" {
		q.Set("reason", o.Reason)
	}
	if o.Force {
		q.Set("force", "true")
	}
	return q
}

// RunAction is an action of the run of a hook or a workflow.
type RunAction[In any] struct{ path string }

// Operations lists the route.
func (a RunAction[In]) Operations() []Operation {
	return []Operation{{http.MethodPost, a.path, "", answerOrPreview[client.NoContent, v2.ActionPreview]}}
}

// Do requests the action.
func (a RunAction[In]) Do(ctx context.Context, c *client.Client, in In, names ...string) error {
	_, err := send[In, client.NoContent](ctx, c, client.Request{Method: http.MethodPost}, a.path, in, nil, names)
	return err
}

// DryRun returns what the action would do.
func (a RunAction[In]) DryRun(ctx context.Context, c *client.Client, in In, names ...string) (v2.ActionPreview, error) {
	return dryRun[In, v2.ActionPreview](ctx, c, a.path, in, nil, names)
}

// Query is a route that reads something that is no document.
type Query[Out any] struct{ path string }

// Operations lists the route.
func (q Query[Out]) Operations() []Operation {
	return []Operation{{http.MethodGet, q.path, "", always[Out]}}
}

// Get reads the answer. query may be nil.
func (q Query[Out]) Get(ctx context.Context, c *client.Client, query url.Values, names ...string) (out Out, err error) {
	path, err := fill(q.path, names)
	if err != nil {
		return out, err
	}
	return client.Get[Out](ctx, c, withQuery(path, query))
}

// Lines calls each for each line of an answer that the server streams: of a status with watch=true, and of events with
// follow=true. It ends as Lines of the client does, with an error if the answer is no stream.
func (q Query[Out]) Lines(ctx context.Context, c *client.Client, query url.Values, each func(line []byte) error, names ...string) error {
	path, err := fill(q.path, names)
	if err != nil {
		return err
	}
	res, err := c.Lines(ctx, client.Request{Method: http.MethodGet, Path: withQuery(path, query)}, each)
	if err != nil {
		return err
	}
	if err := res.Err(http.MethodGet, path); err != nil {
		return err
	}
	if !res.Streamed() {
		return errs.E(errs.Malformed, http.MethodGet, path, errors.New("the answer is no stream; ask with watch=true or follow=true"))
	}
	return nil
}

// Text is a route that answers something else than JSON.
type Text struct{ path string }

// Operations lists the route.
func (t Text) Operations() []Operation {
	return []Operation{{http.MethodGet, t.path, "", func(url.Values) reflect.Type { return nil }}}
}

// Copy writes the answer to w. query may be nil.
func (t Text) Copy(ctx context.Context, c *client.Client, w io.Writer, query url.Values, names ...string) error {
	path, err := fill(t.path, names)
	if err != nil {
		return err
	}
	r := client.Request{Method: http.MethodGet, Path: withQuery(path, query)}
	res, err := c.Copy(ctx, r, w)
	if err != nil {
		return err
	}
	return res.Err(r.Method, r.Path)
}

// send sends a request with a document.
func send[In, Out any](ctx context.Context, c *client.Client, r client.Request, template string, in In, query url.Values, names []string) (out Out, err error) {
	path, err := fill(template, names)
	if err != nil {
		return out, err
	}
	r.Path = withQuery(path, query)
	return client.Send[Out](ctx, c, r, in)
}

func withQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// fill puts names into the variables of a path. The error is Invalid for a wrong number of names, and for names that
// would lead to another route.
func fill(template string, names []string) (string, error) {
	parts, used := strings.Split(template, "/"), 0
	for i, part := range parts {
		if !strings.HasPrefix(part, "{") {
			continue
		}
		if used < len(names) {
			name := names[used]
			if name == "" || name == "." || name == ".." {
				return "", errs.E(errs.Invalid, "path", template, fmt.Errorf("%q cannot be the name for %s", name, part))
			}
			parts[i] = url.PathEscape(name)
		}
		used++
	}
	if used != len(names) {
		return "", errs.E(errs.Invalid, "path", template, errors.New("give "+strconv.Itoa(used)+" names, not "+strconv.Itoa(len(names))))
	}
	return strings.Join(parts, "/"), nil
}
