package store

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// idKey is the key of the document that holds the id of the store. No REST path leads to it.
const idKey Key = "store-identity"

// hidden reports whether a document belongs to the store itself.
func (k Key) hidden() bool { return k == idKey || strings.HasPrefix(string(k), "system/") }

type idDocument struct {
	ID string `json:"id"`
}

// ID returns the id of the store, which no other store has; empty if it has none
// yet.
func ID(ctx context.Context, d Driver) (string, error) {
	doc, err := d.Get(ctx, idKey)
	if errs.Is(err, errs.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var i idDocument
	if err := json.Unmarshal(doc.Body, &i); err != nil || i.ID == "" {
		return "", errs.New(errs.Internal, "the id of the document store cannot be read")
	}
	return i.ID, nil
}

// Identify gives the store an id, unless it has one or another process is faster, and returns
// the id that the store has then.
func Identify(ctx context.Context, d Driver, id string) (string, error) {
	text, err := json.Marshal(idDocument{id})
	if err != nil {
		return "", err
	}
	err = putSystem(ctx, d, Doc{Key: idKey, UID: "1"}, text, 0)
	if err != nil && !errs.Is(err, errs.Exists) {
		return "", err
	}
	return ID(ctx, d)
}

// putSystem writes the next revision of a document of the store itself.
func putSystem(ctx context.Context, d Driver, doc Doc, body []byte, at int64) error {
	now := time.Now().UTC().Truncate(time.Millisecond)
	if doc.Rev == 0 {
		doc.Created = now
	}
	doc.Rev++
	doc.Body, doc.Updated, doc.Tag, doc.Since = body, now, random63(), now
	return d.Put(ctx, doc, at)
}
