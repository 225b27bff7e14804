// Package fetch reads documents, statuses and streams of lines from the server.
package fetch

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Document reads a document into out, and returns it as the server sent it.
func Document(ctx context.Context, c *client.Client, path string, out any) (json.RawMessage, error) {
	res, err := c.Do(ctx, client.Request{Method: http.MethodGet, Path: path, Accept: "application/json"})
	if err == nil {
		err = res.Err(http.MethodGet, path)
	}
	if err == nil {
		err = res.Decode(out)
	}
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// Status returns a status, decoded and as the server sent it.
func Status(ctx context.Context, c *client.Client, path, query string) (v2.Status, json.RawMessage, error) {
	var s v2.Status
	text, err := Document(ctx, c, path+"/status?"+query, &s)
	return s, text, err
}
