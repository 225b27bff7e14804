package resource

import (
	"context"
	"io"
	"net/url"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Def declares a resource whose documents are of type T.
type Def[T any] struct {
	Kind     string // in upstream's messages: "Cluster" in "Cluster already exists"
	Missing  string // upstream's text when GET finds nothing; empty for "<Kind> not found"
	Absent   string // upstream's text when DELETE finds nothing; empty for "The requested resource not found"
	Orphan   string // upstream's text when the parent of a listing is missing; needed unless the collection is a root
	Explicit bool   // POST below a missing parent answers 404 with Orphan, as upstream EMCO does where it checks the parent, and not 409

	Collection string // path below /v2: "cluster-providers/{clusterProvider}/clusters"
	Item       string // path below the collection: "{cluster}", or "{compositeApp}/{compositeAppVersion}"
	Type       string // of the documents in permissions; empty for the name of the collection
	Put        Put
	AtItem     bool // POST of an item creates it, too, and DELETE of an item answers 200, as in upstream's policy service
	Clear      bool // DELETE of the collection deletes all its documents

	AtMost int                                              // documents that a collection may have; 0: any number
	Refs   func(at Place, doc T) []store.Ref                // what cannot be deleted while the document exists; it may be missing, as in upstream EMCO
	Needs  func(at Place, doc T) []store.Key                // the same, and it must exist
	Unique func(at Place, doc T) UniqueKey                  // what only one document of the collection may have
	Check  func(ctx context.Context, at Place, doc T) error // rules that need other documents; called before each write
	// Settle fills in what the server decides of a new document. It is called before Check.
	Settle func(ctx context.Context, at Place, doc *T) error
	// Adopt has a PUT keep what the server decided of the stored document, and refuses what cannot
	// change in place. secret is the new secret file; it returns the one to store. It is called
	// before Check.
	Adopt func(doc *T, secret seal.Secret, old T, stored seal.Secret) (seal.Secret, error)
	// Forbids says, in the reference, when Check answers Forbidden, such as "the operator does not allow its runner"; empty: never.
	Forbids string
	Recheck bool                        // Check reads what others may write at the same time: it is called again after creation, which is undone if it fails
	File    *File[T]                    // an upload that comes with the document
	Masking *Masking[T]                 // members that are never shown
	Show    func(doc T) ([]byte, error) // the JSON that clients see, if it is not what is stored; not with Masking
	Guards  Guards
	Queries []Query // what "?name=" makes of a GET
	// Scope returns the place that a document of a root collection is: a list leaves out those that the caller
	// may not read there. nil: the documents of a list are all at one place.
	Scope func(name string) string
	Shape *Shape // how lists look, if not as an array of documents
}

// Put decides the answer of a PUT. Every PUT creates a missing document.
type Put uint8

// The habits of upstream's PUTs; clients wait for these very codes.
const (
	NoPut      Put = iota // 405
	PutOK                 // 200
	PutCreated            // 201
	PutUpsert             // 200 if the document was there, else 201
)

// Place is where a document lives.
type Place struct {
	Key        store.Key // of the document; of the collection while no document is concerned
	Collection store.Key
	Parent     store.Key         // empty for roots
	Vars       map[string]string // the names in the URL
}

// AppRef refers to an app of the composite app that a document is below. The app cannot be deleted while the
// document exists.
func AppRef(at Place, app string) store.Ref {
	return store.Ref{Key: store.Key(v2.AppKey{CompositeApp: web.CompositeApp(at.Vars), Name: app}.StoreKey())}
}

// UniqueKey is something that only one document of a collection may have, such as the
// app that a profile is for. The zero UniqueKey is nothing.
type UniqueKey struct {
	Name  string // equal names exclude each other
	Taken string // message when it is taken; the name of the holder is added to it
}

// Guards are asked before a document is changed or deleted, by those who know what
// runs because of it. Errors are answered as they are. Each may be nil.
type Guards struct {
	// Create objects to a new document below a parent, which may not exist.
	Create func(ctx context.Context, parent store.Key) error
	// Replace objects to a change of doc. It is not asked when nothing changes.
	Replace func(ctx context.Context, doc store.Doc) error
	// Delete objects to the deletion of doc. Children and references are checked
	// already, and nothing can come to depend on doc while it is asked.
	Delete func(ctx context.Context, doc store.Doc) error
	// Deleted removes what belongs to doc elsewhere. It is called when Delete did not
	// object, just before doc is gone; after a crash it is called again.
	Deleted func(ctx context.Context, doc store.Doc) error
}

// ask calls a guard that may be nil.
func ask(ctx context.Context, guard func(context.Context, store.Doc) error, doc store.Doc) error {
	if guard == nil {
		return nil
	}
	return guard(ctx, doc)
}

// File declares the file that comes with a document, in the multipart part "file". A document
// without it is sent as JSON.
type File[T any] struct {
	Limit    int64                                                                         // largest content in bytes; of all files together
	Name     string                                                                        // file name in multipart answers; none if empty
	Needed   func(doc T) bool                                                              // whether the document has a file; nil: always. A file that is not needed is ignored
	Optional bool                                                                          // a file that is not needed is kept
	Many     int                                                                           // largest number of files, in parts "files" or "file"; 0: one. Needs Secret; content is that of PackFiles
	Part     string                                                                        // name of the document's part in multipart answers; "metadata" if empty
	Check    func(ctx context.Context, doc T, content func() (io.ReadCloser, error)) error // judges the content at upload
	Secret   bool                                                                          // kept sealed as the document's secret and not as a blob
	Show     func(ctx context.Context, doc store.Doc, content []byte) ([]byte, error)      // for Secret: what clients may see of a file
}

// Masking declares write-only members. The store keeps the whole document as its
// secret, in JSON, and the masked copy as its body.
type Masking[T any] struct {
	Mask   func(doc T) T             // a copy without secrets
	Unmask func(doc *T, old T) error // brings secrets back that doc shows masked; old is the zero T for a new document
	// InBody keeps the secrets in the body and masks answers only: for documents that
	// other services read without unsealing them. The collection must be in holdsValues of
	// package app, which has the body sealed; otherwise the store holds the secrets in clear.
	InBody bool
}

// Query answers a GET that has the parameter. A query that does not handle the value
// returns nil, and the next one is called. Answer gets all parameters, since others may narrow its answer.
type Query struct {
	Param  string
	OnItem bool                                                                   // on an item; otherwise on the collection, with or without a slash at the end
	Answer func(ctx context.Context, at Place, values url.Values) ([]byte, error) // JSON
	Pick   func(ctx context.Context, at Place, value string) (store.Key, error)   // instead of Answer: the item that is meant
}

// Shape is the form of a list other than an array of documents.
type Shape struct {
	Begin, End string
	Item       func(doc store.Doc) ([]byte, error)
}

// document is what *T has to be.
type document[T any] interface {
	*T
	v2.Document
}
