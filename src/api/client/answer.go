package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// maxErrorText bounds the text of a Refusal.
const maxErrorText = 8 << 10

// Refusal is the server's answer behind an error.
type Refusal struct {
	Status int    // the HTTP status
	Text   string // the server's message, or the status's own text
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Text }

// StatusOf returns the HTTP status behind err, 0 if the server did not answer.
func StatusOf(err error) int {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Status
	}
	return 0
}

// Err returns nil for a 2xx answer. Otherwise the error has the status's kind, the method and the path without its
// query as operation and subject, and a *Refusal as cause.
func (r *Response) Err(method, path string) error {
	if r.OK() {
		return nil
	}
	path, _, _ = strings.Cut(path, "?")
	cause := &Refusal{Status: r.Status, Text: r.message()}
	kind := errs.FromStatus(r.Status)
	if kind == errs.Throttled {
		return errs.Throttle(method, path, retryAfter(r.Header), cause)
	}
	return errs.E(kind, method, path, cause)
}

// message returns the text of a refusal, cut to maxErrorText: the detail of a problem
// document, or upstream's plain text.
func (r *Response) message() string {
	text := strings.TrimSpace(string(r.Body[:min(len(r.Body), maxErrorText)]))
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && media == "application/problem+json" {
		var p struct{ Title, Detail string }
		if json.Unmarshal(r.Body, &p) == nil && p.Detail+p.Title != "" {
			return strings.TrimSpace(strings.TrimPrefix(p.Title+": "+p.Detail, ": "))
		}
	}
	if text == "" || !utf8.ValidString(text) {
		if allowed := r.Header.Get("Allow"); r.Status == http.StatusMethodNotAllowed && allowed != "" {
			return "the path is not for this method; it allows " + allowed
		}
		return fmt.Sprintf("server answered %d %s", r.Status, http.StatusText(r.Status))
	}
	return text
}

// Decode reads a JSON answer into out; Malformed if it is not that.
func (r *Response) Decode(out any) error {
	if err := json.Unmarshal(r.Body, out); err != nil {
		return errs.E(errs.Malformed, "decode", "answer", err)
	}
	return nil
}

// JSONType is the media type of documents.
const JSONType = "application/json"

// NoContent is the type of None.
type NoContent struct{}

// None is the document of an action that takes none: the request has no body.
var None NoContent

// Ask sends a request and reads the whole answer. A refusal is an error, that of Response.Err; other errors are those
// of Do.
func (c *Client) Ask(ctx context.Context, r Request) (*Response, error) {
	res, err := c.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	return res, res.Err(r.Method, r.Path)
}

// Send sends a request with a document, by upstream's multipart form if there are files, and returns what the server
// answers. None sends no body. T's zero value is returned for an empty answer.
func Send[T, D any](ctx context.Context, c *Client, r Request, doc D, files ...File) (out T, err error) {
	if _, none := any(doc).(NoContent); !none {
		text, err := json.Marshal(doc)
		if err != nil {
			return out, errs.E(errs.Malformed, r.Method, r.Path, err)
		}
		r.Body = JSON(text)
		if len(files) > 0 {
			if r.Body, err = Multipart(text, files...); err != nil {
				return out, err
			}
		}
	}
	return ask[T](ctx, c, r)
}

// Get reads a document of type T. The error is NotFound, or another kind that the
// server's status maps to, or one of Do's.
func Get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return ask[T](ctx, c, Request{Method: http.MethodGet, Path: path})
}

// Post creates a document below a collection, or runs an action, and returns what the server answers, as Send does.
func Post[T, D any](ctx context.Context, c *Client, path string, doc D) (T, error) {
	return Send[T](ctx, c, Request{Method: http.MethodPost, Path: path}, doc)
}

// Put replaces a document and returns what the server stored.
func Put[T, D any](ctx context.Context, c *Client, path string, doc D) (T, error) {
	return Send[T](ctx, c, Request{Method: http.MethodPut, Path: path}, doc)
}

// Delete removes a document.
func (c *Client) Delete(ctx context.Context, path string) error {
	_, err := c.Ask(ctx, Request{Method: http.MethodDelete, Path: path})
	return err
}

// Upload creates a document with files.
func Upload[D any](ctx context.Context, c *Client, path string, doc D, files ...File) error {
	_, err := Send[json.RawMessage](ctx, c, Request{Method: http.MethodPost, Path: path}, doc, files...)
	return err
}

// ask reads a JSON answer; T's zero value if it is empty.
func ask[T any](ctx context.Context, c *Client, r Request) (out T, err error) {
	r.Accept = JSONType
	res, err := c.Ask(ctx, r)
	if err != nil || len(bytes.TrimSpace(res.Body)) == 0 {
		return out, err
	}
	err = res.Decode(&out)
	return out, err
}
