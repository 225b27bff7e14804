// Package fetch reads answers of the server for commands that show them: views, statuses and streams of lines. Package
// apply reads the documents of get.
package fetch

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// Document reads a document into out, and returns it as the server sent it.
func Document(ctx context.Context, c *client.Client, path string, out any) (json.RawMessage, error) {
	res, err := c.Ask(ctx, client.Request{Method: http.MethodGet, Path: path, Accept: client.JSONType})
	if err == nil {
		err = res.Decode(out)
	}
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// Show reads a document and prints it: by print for people, in another form as the server sent it.
func Show[T any](ctx context.Context, c *client.Client, path string, w io.Writer, form output.Format, print func(io.Writer, T)) error {
	var d T
	text, err := Document(ctx, c, path, &d)
	if err != nil {
		return err
	}
	if form != output.Human {
		return output.Encode(w, form, text)
	}
	print(w, d)
	return nil
}

// Status returns a status, decoded and as the server sent it.
func Status(ctx context.Context, c *client.Client, path, query string) (v2.Status, json.RawMessage, error) {
	var s v2.Status
	text, err := Document(ctx, c, path+"/status?"+query, &s)
	return s, text, err
}
