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

// Err returns nil for a 2xx answer. Otherwise the error has the status's kind,
// the method and path as operation and subject, and a *Refusal as cause.
func (r *Response) Err(method, path string) error {
	if r.OK() {
		return nil
	}
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
		return fmt.Sprintf("server answered %d %s", r.Status, http.StatusText(r.Status))
	}
	return text
}

// Decode reads a JSON answer into out; Malformed if it is not that.
func (r *Response) Decode(out any) error {
	if err := json.Unmarshal(bytes.TrimSpace(r.Body), out); err != nil {
		return errs.E(errs.Malformed, "decode", "answer", err)
	}
	return nil
}

// NoContent is the type of None.
type NoContent struct{}

// None is the document of an action that takes none: the request has no body.
var None NoContent

// Get reads a document of type T. The error is NotFound, or another kind that the
// server's status maps to, or one of Do's.
func Get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return call[T](ctx, c, Request{Method: http.MethodGet, Path: path, Accept: jsonType})
}

// Post creates a document below a collection, or runs an action, and returns what
// the server answers; None sends no body. T's zero value is returned
// for an empty answer.
func Post[T, D any](ctx context.Context, c *Client, path string, doc D) (T, error) {
	return sendJSON[T](ctx, c, http.MethodPost, path, doc)
}

// Put replaces a document and returns what the server stored.
func Put[T, D any](ctx context.Context, c *Client, path string, doc D) (T, error) {
	return sendJSON[T](ctx, c, http.MethodPut, path, doc)
}

// Delete removes a document.
func (c *Client) Delete(ctx context.Context, path string) error {
	res, err := c.Do(ctx, Request{Method: http.MethodDelete, Path: path})
	if err != nil {
		return err
	}
	return res.Err(http.MethodDelete, path)
}

// Upload creates a document with files, by upstream's multipart form.
func Upload[D any](ctx context.Context, c *Client, path string, doc D, files ...File) error {
	text, err := json.Marshal(doc)
	if err != nil {
		return errs.E(errs.Malformed, http.MethodPost, path, err)
	}
	body, err := Multipart(text, files...)
	if err != nil {
		return err
	}
	res, err := c.Do(ctx, Request{Method: http.MethodPost, Path: path, Accept: jsonType, Body: body})
	if err != nil {
		return err
	}
	return res.Err(http.MethodPost, path)
}

const jsonType = "application/json"

func sendJSON[T, D any](ctx context.Context, c *Client, method, path string, doc D) (T, error) {
	r := Request{Method: method, Path: path, Accept: jsonType}
	if _, none := any(doc).(NoContent); !none {
		text, err := json.Marshal(doc)
		if err != nil {
			var zero T
			return zero, errs.E(errs.Malformed, method, path, err)
		}
		r.Body = JSON(text)
	}
	return call[T](ctx, c, r)
}

func call[T any](ctx context.Context, c *Client, r Request) (T, error) {
	var out T
	res, err := c.Do(ctx, r)
	if err != nil {
		return out, err
	}
	if err := res.Err(r.Method, r.Path); err != nil {
		return out, err
	}
	if len(bytes.TrimSpace(res.Body)) == 0 {
		return out, nil
	}
	return out, res.Decode(&out)
}
