// Package rest has a typed call for each route of the REST API: documents, actions and queries,
// which package client sends.
//
//	app, err := rest.Apps.Get(ctx, c, "shop", "web", "v1", "frontend")
//	plan, err := rest.UpdateDeployment.DryRun(ctx, c, client.None, nil, "shop", "web", "v1", "prod")
//
// The names after the last other argument fill the variables of the route's path, from left to right.
package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
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
}

// Route is what All lists.
type Route interface{ Operations() []Operation }

const jsonType = "application/json"

// pageSize is how many documents a list requests at a time.
const pageSize = 500

// Fixed are the documents of type T in one collection that cannot be replaced.
type Fixed[T any] struct{ collection, item string }

// Operations lists the routes.
func (d Fixed[T]) Operations() []Operation {
	document := reflect.TypeFor[T]().Name()
	return []Operation{
		{http.MethodPost, d.collection, document},
		{http.MethodGet, d.collection, document},
		{http.MethodGet, d.path(), document},
		{http.MethodDelete, d.path(), document},
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
	res, err := answer(ctx, c, client.Request{Method: http.MethodGet, Path: path, Accept: jsonType})
	if err != nil {
		return doc, "", err
	}
	return doc, res.ETag(), res.Decode(&doc)
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
			res, err := answer(ctx, c, client.Request{Method: http.MethodGet, Path: withQuery(path, page), Accept: jsonType})
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
	return append(d.Fixed.Operations(), Operation{http.MethodPut, d.path(), reflect.TypeFor[T]().Name()})
}

// Replace replaces a document, whatever it is now, and returns what the server stored.
func (d Documents[T]) Replace(ctx context.Context, c *client.Client, doc T, names ...string) (T, error) {
	path, err := fill(d.path(), names)
	if err != nil {
		return doc, err
	}
	return client.Put[T](ctx, c, path, doc)
}

// Update reads a document, calls change, and stores the result. The error is Conflict if somebody else has changed the
// document meanwhile: call Update again.
func (d Documents[T]) Update(ctx context.Context, c *client.Client, change func(*T) error, names ...string) (doc T, err error) {
	doc, tag, err := d.read(ctx, c, names)
	if err != nil {
		return doc, err
	}
	if err := change(&doc); err != nil {
		return doc, err
	}
	path, err := fill(d.path(), names)
	if err != nil {
		return doc, err
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return doc, errs.E(errs.Malformed, http.MethodPut, path, err)
	}
	var stored T
	err = ask(ctx, c, client.Request{Method: http.MethodPut, Path: path, Accept: jsonType, IfMatch: tag, Body: client.JSON(text)}, &stored)
	return stored, err
}

// Files are documents of type T that come with a file. Replace and Update are for those without one.
type Files[T any] struct{ Documents[T] }

// Upload creates a document with its file.
func (d Files[T]) Upload(ctx context.Context, c *client.Client, doc T, file client.File, names ...string) (T, error) {
	return d.send(ctx, c, http.MethodPost, d.collection, doc, file, names)
}

// Exchange replaces a document and its file.
func (d Files[T]) Exchange(ctx context.Context, c *client.Client, doc T, file client.File, names ...string) (T, error) {
	return d.send(ctx, c, http.MethodPut, d.path(), doc, file, names)
}

// Download writes the file of a document to w.
func (d Files[T]) Download(ctx context.Context, c *client.Client, w io.Writer, names ...string) error {
	path, err := fill(d.path(), names)
	if err != nil {
		return err
	}
	return download(ctx, c, client.Request{Method: http.MethodGet, Path: path, Accept: "application/octet-stream"}, w)
}

func (d Files[T]) send(ctx context.Context, c *client.Client, method, template string, doc T, file client.File, names []string) (stored T, err error) {
	path, err := fill(template, names)
	if err != nil {
		return stored, err
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return stored, errs.E(errs.Malformed, method, path, err)
	}
	body, err := client.Multipart(text, file)
	if err != nil {
		return stored, err
	}
	err = ask(ctx, c, client.Request{Method: method, Path: path, Accept: jsonType, Body: body}, &stored)
	return stored, err
}

// groupIntents have a list that holds no documents.
type groupIntents struct{ Documents[v2.GroupIntent] }

// All reads the intents of a group. The server leaves their names out of the list.
func (d groupIntents) All(ctx context.Context, c *client.Client, names ...string) iter.Seq2[v2.GroupIntentSpec, error] {
	return pages(ctx, c, d.collection, names, func(res *client.Response) ([]v2.GroupIntentSpec, error) {
		var list struct {
			Intent []map[string]string `json:"intent"`
		}
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

// Operations lists the route.
func (a Call[In, Out]) Operations() []Operation { return []Operation{{a.method, a.path, ""}} }

// Do sends the call. query may be nil.
func (a Call[In, Out]) Do(ctx context.Context, c *client.Client, in In, query url.Values, names ...string) (out Out, err error) {
	err = do(ctx, c, client.Request{Method: a.method}, a.path, in, query, names, &out)
	return out, err
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
	return []Operation{{http.MethodPost, a.path, ""}}
}

// Do requests the action. It returns the number of the revision if the server answers one, as it does for an update.
func (a Action[In, Preview]) Do(ctx context.Context, c *client.Client, in In, o ActionOptions, names ...string) (revision int64, err error) {
	err = do(ctx, c, client.Request{Method: http.MethodPost, Key: o.Key, IfPlan: o.IfPlan}, a.path, in, o.query(), names, &revision)
	return revision, err
}

// DryRun returns what the action would do.
func (a Action[In, Preview]) DryRun(ctx context.Context, c *client.Client, in In, query url.Values, names ...string) (out Preview, err error) {
	with := url.Values{}
	maps.Copy(with, query)
	with.Set("dryRun", "true")
	err = do(ctx, c, client.Request{Method: http.MethodPost}, a.path, in, with, names, &out)
	return out, err
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

// Query is a route that reads something that is no document.
type Query[Out any] struct{ path string }

// Operations lists the route.
func (q Query[Out]) Operations() []Operation { return []Operation{{http.MethodGet, q.path, ""}} }

// Get reads the answer. query may be nil.
func (q Query[Out]) Get(ctx context.Context, c *client.Client, query url.Values, names ...string) (out Out, err error) {
	path, err := fill(q.path, names)
	if err != nil {
		return out, err
	}
	err = ask(ctx, c, client.Request{Method: http.MethodGet, Path: withQuery(path, query), Accept: jsonType}, &out)
	return out, err
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
func (t Text) Operations() []Operation { return []Operation{{http.MethodGet, t.path, ""}} }

// Copy writes the answer to w. query may be nil.
func (t Text) Copy(ctx context.Context, c *client.Client, w io.Writer, query url.Values, names ...string) error {
	path, err := fill(t.path, names)
	if err != nil {
		return err
	}
	return download(ctx, c, client.Request{Method: http.MethodGet, Path: withQuery(path, query)}, w)
}

// download writes an answer to w.
func download(ctx context.Context, c *client.Client, r client.Request, w io.Writer) error {
	res, err := c.Copy(ctx, r, w)
	if err != nil {
		return err
	}
	return res.Err(r.Method, r.Path)
}

// do sends a request with a document, or with none if in is client.None.
func do(ctx context.Context, c *client.Client, r client.Request, template string, in any, query url.Values, names []string, out any) error {
	path, err := fill(template, names)
	if err != nil {
		return err
	}
	r.Path, r.Accept = withQuery(path, query), jsonType
	if _, none := in.(client.NoContent); !none {
		text, err := json.Marshal(in)
		if err != nil {
			return errs.E(errs.Malformed, r.Method, path, err)
		}
		r.Body = client.JSON(text)
	}
	return ask(ctx, c, r, out)
}

// ask sends a request and reads the answer, if it is not empty, into out.
func ask(ctx context.Context, c *client.Client, r client.Request, out any) error {
	res, err := answer(ctx, c, r)
	if err != nil || len(res.Body) == 0 {
		return err
	}
	return res.Decode(out)
}

// answer sends a request. A refusal is an error.
func answer(ctx context.Context, c *client.Client, r client.Request) (*client.Response, error) {
	res, err := c.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	about, _, _ := strings.Cut(r.Path, "?")
	return res, res.Err(r.Method, about)
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
