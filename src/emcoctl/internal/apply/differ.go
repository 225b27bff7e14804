package apply

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/document"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// Difference is the difference between a document and the server's.
type Difference struct {
	Path          string          // of the item
	Outcome       output.Outcome  // of an apply: created, configured or unchanged; secrets, which the server does not show, are not compared
	Note          string          // the difference in words; empty if there is none
	Server, Local json.RawMessage // if the documents differ: both, in the same form; Server is nil if it has none
}

// Compare compares one document, and its file if it has one, with the server's. It changes
// nothing. Actions never differ.
func (e *Executor) Compare(ctx context.Context, doc document.Document) (Difference, error) {
	d := Difference{Path: doc.Anchor, Outcome: output.Unchanged}
	if anchor.IsAction(doc.Anchor) {
		return d, nil
	}
	item, err := anchor.Item(doc.Anchor, doc.Names)
	if err != nil {
		return d, err
	}
	d.Path = item
	t := documentRequest{verb: anchor.Get, doc: doc}
	if t.client, err = e.client(doc.Anchor); err != nil {
		return d, err
	}
	now, err := t.client.Do(ctx, client.Request{Method: http.MethodGet, Path: item, Accept: client.JSONType})
	if err != nil {
		return d, err
	}
	if anchor.Collection(item) == "clusters" && now.OK() {
		doc.Body, _ = withLocation(doc.Body, now.Body)
	}
	switch {
	case now.Status == http.StatusNotFound:
		return d.differs("is not on the server", item, nil, doc.Body)
	case !now.OK():
		return d, now.Err(http.MethodGet, item)
	case compare(item, doc.Body, now.Body) == different:
		return d.differs("differs from the server's", item, now.Body, doc.Body)
	case e.compareFiles(ctx, t, item) == different:
		d.Outcome, d.Note = output.Configured, "has another file than the server's"
	}
	return d, nil
}

func (d Difference) differs(note, item string, server, local []byte) (_ Difference, err error) {
	d.Outcome, d.Note = output.Configured, note
	if server == nil {
		d.Outcome = output.Created
	}
	if d.Local, err = plainForm(item, local); err == nil && server != nil {
		d.Server, err = plainForm(item, server)
	}
	return d, err
}

// plainForm returns a document in the form for comparisons.
func plainForm(item string, text []byte) (json.RawMessage, error) {
	n, err := tree(item, text)
	if err != nil {
		return text, nil // it cannot be read: show it as it is
	}
	return n.JSON()
}
