package apply

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net/http"
	"reflect"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/jsontree"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
)

// documentComparison is the result of comparing a document with the stored one.
type documentComparison uint8

// The order matters: the greater of two comparisons decides.
const (
	same      documentComparison = iota
	undecided                    // the visible parts are the same; the server decides
	different
)

// compare compares the document to send with the stored one, that of an item. It is undecided if there are
// secrets, which the server does not show.
func compare(item string, sent, stored []byte) documentComparison {
	a, err := tree(item, sent)
	if err != nil {
		return different // the server reports what is wrong with it
	}
	b, err := tree(item, stored)
	if err != nil || !reflect.DeepEqual(a, b) {
		return different
	}
	if masked(stored) {
		return undecided
	}
	return same
}

// masked reports whether an answer hides a secret.
func masked(body []byte) bool { return bytes.Contains(body, []byte(`"`+v2.Mask+`"`)) }

// tree reads a document in its canonical form, without empty members.
func tree(item string, text []byte) (jsontree.Node, error) {
	if k, ok := kind.At(item); ok && k.Canonical != nil {
		canonical, err := k.Canonical(text)
		if err != nil {
			return jsontree.Node{}, err
		}
		text = canonical
	}
	n, err := jsontree.Parse(text)
	return n.Prune(), err
}

// compareFiles compares the uploaded content by SHA-256. The server returns several files as
// one, in the order of the upload. The result is undecided if the server does not return
// the content.
func (e *Executor) compareFiles(ctx context.Context, t documentRequest, item string) documentComparison {
	files := t.files()
	switch {
	case len(files) == 0:
		return same
	case anchor.Collection(item) == "clusters":
		return undecided // the server shows a kubeconfig without its credentials
	}
	ours := sha256.New()
	for _, f := range files {
		if err := feed(ours, f); err != nil {
			return different // the upload reports what is wrong
		}
	}
	theirs := sha256.New()
	res, err := t.client.Copy(ctx, client.Request{Method: http.MethodGet, Path: item, Accept: "application/octet-stream"}, theirs)
	switch {
	case err != nil || !res.OK():
		return undecided
	case !bytes.Equal(ours.Sum(nil), theirs.Sum(nil)):
		return different
	}
	return same
}

// feed copies a file, up to the limit of the client's downloads.
func feed(w io.Writer, f client.File) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(w, io.LimitReader(r, client.MaxFileBytes))
	return err
}
