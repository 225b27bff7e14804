package store

import (
	"context"
	"errors"
	"iter"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// AnySealed returns the bytes of one sealed secret, or nil if no document has one. Such a store needs the key
// that sealed them: a new key could never open them.
func AnySealed(ctx context.Context, d Driver) ([]byte, error) {
	for doc, err := range d.List(ctx, "", Query{}) {
		if err != nil || doc.Secret != nil {
			return doc.Secret, err
		}
	}
	return nil, nil
}

// SealBodies returns a driver that seals the bodies of the documents that holds names, and opens all. Bodies
// that were stored before are read as they are.
func SealBodies(d Driver, s *seal.Sealer, holds func(Key) bool) Driver {
	b := bodySealer{d, s, holds}
	if c, ok := d.(Creator); ok {
		return &creatingSealer{b, c}
	}
	return &b
}

// bodySealer seals bodies above another driver.
type bodySealer struct {
	Driver
	sealer *seal.Sealer
	holds  func(Key) bool
}

// bodyPlace binds a sealed body to its document.
func bodyPlace(d Doc) []string { return []string{string(d.Key), d.UID, "body"} }

// creatingSealer is a bodySealer above a Creator.
type creatingSealer struct {
	bodySealer
	creator Creator
}

// Create implements Creator.
func (c *creatingSealer) Create(ctx context.Context, d Doc, others map[Key]int64) error {
	return c.creator.Create(ctx, c.sealed(d), others)
}

// Put implements Driver.
func (b *bodySealer) Put(ctx context.Context, d Doc, at int64) error {
	return b.Driver.Put(ctx, b.sealed(d), at)
}

func (b *bodySealer) sealed(d Doc) Doc {
	if b.holds(d.Key) {
		d.Body = b.sealer.Seal(d.Body, bodyPlace(d)...)
	}
	return d
}

// Get implements Driver.
func (b *bodySealer) Get(ctx context.Context, k Key) (Doc, error) {
	d, err := b.Driver.Get(ctx, k)
	if err != nil {
		return d, err
	}
	return b.opened(ctx, d)
}

// GetEach implements Batcher.
func (b *bodySealer) GetEach(ctx context.Context, keys []Key) iter.Seq2[Doc, error] {
	return b.openedEach(ctx, GetEach(ctx, b.Driver, keys))
}

// List implements Driver.
func (b *bodySealer) List(ctx context.Context, under Key, q Query) iter.Seq2[Doc, error] {
	return b.openedEach(ctx, b.Driver.List(ctx, under, q))
}

func (b *bodySealer) openedEach(ctx context.Context, docs iter.Seq2[Doc, error]) iter.Seq2[Doc, error] {
	return func(yield func(Doc, error) bool) {
		for d, err := range docs {
			if err == nil {
				d, err = b.opened(ctx, d)
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

func (b *bodySealer) opened(ctx context.Context, d Doc) (Doc, error) {
	if !seal.Sealed(d.Body) {
		return d, nil
	}
	plain, err := b.sealer.Open(ctx, d.Body, bodyPlace(d)...)
	if err != nil {
		return Doc{}, errs.E(errs.KindOf(err), "unseal", string(d.Key), err)
	}
	d.Body = plain
	return d, nil
}

// Changes implements Follower.
func (b *bodySealer) Changes(ctx context.Context, mark int64) (Changes, error) {
	if f, ok := b.Driver.(Follower); ok {
		return f.Changes(ctx, mark)
	}
	return Changes{All: true}, nil
}

// SealCount counts sealed values.
type SealCount struct {
	Keys  map[string]int // values by the id of their key
	Plain int            // values that wait to be sealed
	Done  int            // values that Reseal sealed with the key in use
	Left  int            // values that Reseal did not seal with the key in use: they were written at the same time
}

// CountSealed opens all secrets and bodies of documents, and counts them. holds names the documents whose
// bodies are sealed. The error names the first document that does not open.
func CountSealed(ctx context.Context, d Driver, s *seal.Sealer, holds func(Key) bool) (SealCount, error) {
	n := SealCount{Keys: map[string]int{}}
	for doc, err := range d.List(ctx, "", Query{}) {
		if err != nil {
			return n, err
		}
		if doc.Secret != nil {
			n.Keys[seal.KeyID(doc.Secret)]++
		}
		switch {
		case seal.Sealed(doc.Body):
			n.Keys[seal.KeyID(doc.Body)]++
		case holds(doc.Key):
			n.Plain++
		}
		if _, _, err := reopened(ctx, doc, s); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Reseal seals all secrets of documents, and the bodies of those that holds names, with the key in use, where
// they are not yet. Content, revision and times of the documents stay. It may be interrupted, and repeated;
// processes may read and write meanwhile. What they write at the same time stays for the next call.
func Reseal(ctx context.Context, d Driver, s *seal.Sealer, holds func(Key) bool) (SealCount, error) {
	n := SealCount{Keys: map[string]int{}}
	for doc, err := range d.List(ctx, "", Query{}) {
		if err != nil {
			return n, err
		}
		secret := doc.Secret != nil && !s.Current(doc.Secret)
		body := (seal.Sealed(doc.Body) || holds(doc.Key)) && !s.Current(doc.Body)
		if !secret && !body {
			continue
		}
		if doc.State != Live { // another tag would disturb its writer
			n.Left++
			continue
		}
		plain, opened, err := reopened(ctx, doc, s)
		if err != nil {
			return n, err
		}
		if secret {
			doc.Secret = s.Seal(plain, string(doc.Key), doc.UID)
		}
		if body {
			doc.Body = s.Seal(opened, bodyPlace(doc)...)
		}
		at := doc.Tag
		doc.Tag = random63()
		err = d.Put(ctx, doc, at)
		switch {
		case errs.Is(err, errs.Conflict):
			n.Left++
		case err != nil:
			return n, err
		default:
			n.Done++
		}
	}
	return n, nil
}

// reopened returns secret and body of a document in clear.
func reopened(ctx context.Context, d Doc, s *seal.Sealer) (secret, body seal.Secret, err error) {
	body = d.Body
	if d.Secret != nil {
		secret, err = s.Open(ctx, d.Secret, string(d.Key), d.UID)
	}
	if seal.Sealed(d.Body) {
		var e error
		body, e = s.Open(ctx, d.Body, bodyPlace(d)...)
		err = errors.Join(err, e)
	}
	if err != nil {
		return nil, nil, errs.E(errs.KindOf(err), "unseal", string(d.Key), err)
	}
	return secret, body, nil
}

// keysKey is the key of the document that holds the data keys, wrapped. No REST path leads to it.
const keysKey Key = "system/keys"

// KeysDoc reads the document of the data keys; NotFound if there is none.
func KeysDoc(ctx context.Context, d Driver) (body []byte, tag int64, err error) {
	doc, err := d.Get(ctx, keysKey)
	return doc.Body, doc.Tag, err
}

// PutKeysDoc writes the document of the data keys if it has the tag at, 0 if there must be none; Conflict or
// Exists if not.
func PutKeysDoc(ctx context.Context, d Driver, body []byte, at int64) error {
	doc, err := d.Get(ctx, keysKey)
	switch {
	case err != nil && !errs.Is(err, errs.NotFound):
		return err
	case err != nil:
		doc = Doc{Key: keysKey, UID: "1"}
	case doc.Tag != at:
		return conflict("put", keysKey, errLost)
	}
	return putSystem(ctx, d, doc, body, at)
}
