package resource

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// maxRaces is how often an unconditional PUT starts over when others write the same
// document.
const maxRaces = 8

// storedDocument is a document with its secret.
type storedDocument[T any] struct {
	store.Doc
	plain seal.Secret
	full  T // with secret members; the zero T if there are none
}

// create serves POST.
func (h *handler[T, P]) create(w http.ResponseWriter, r *http.Request) error {
	at, err := h.def.place(r)
	if err != nil {
		return err
	}
	up, err := h.read(w, r, at)
	defer up.discard()
	if err != nil {
		return err
	}
	if h.def.AtItem {
		if err := nameFrom[T, P](&up.doc, expand(h.def.Item, at.Vars)); err != nil {
			return err
		}
	}
	if err := P(&up.doc).Validate(); err != nil {
		return err // before the name becomes part of a key
	}
	doc, err := h.insert(r.Context(), at.with(P(&up.doc).DocName()), up)
	if err != nil {
		return err
	}
	return h.answer(w, http.StatusCreated, doc)
}

// nameFrom gives a document the name in the URL, if there is one. Another name in the document is Invalid.
func nameFrom[T any, P document[T]](doc *T, name string) error {
	switch own := P(doc).DocName(); {
	case name == "" || own == name:
	case own == "":
		P(doc).SetDocName(name)
	default:
		return errs.New(errs.Invalid, "Invalid Input:\n- metadata.name: it is not the name in the URL")
	}
	return nil
}

// insert stores a new document.
func (h *handler[T, P]) insert(ctx context.Context, at Place, up requestContent[T]) (store.Doc, error) {
	if h.def.Explicit {
		if err := h.orphan(ctx, at, nil); err != nil {
			return store.Doc{}, err
		}
	}
	if h.def.Settle != nil {
		if err := h.def.Settle(ctx, at, &up.doc); err != nil {
			return store.Doc{}, h.first(ctx, at, err)
		}
	}
	if h.def.Guards.Create != nil {
		if err := h.def.Guards.Create(ctx, at.Parent); err != nil {
			return store.Doc{}, h.first(ctx, at, err)
		}
	}
	if err := h.room(ctx, at); err != nil {
		return store.Doc{}, h.first(ctx, at, err)
	}
	if up.skipped {
		return store.Doc{}, errs.New(errs.Conflict, textNoParent+": "+string(at.Parent))
	}
	write, err := h.write(ctx, at, up, storedDocument[T]{})
	if err != nil {
		return store.Doc{}, h.first(ctx, at, err)
	}
	if _, err := h.db.Get(ctx, at.Key); err == nil && up.upload != nil {
		return store.Doc{}, errs.New(errs.Exists, h.def.Kind+" already exists") // before the file is kept
	}
	if err := up.keep(); err != nil {
		return store.Doc{}, err
	}
	doc, err := h.db.Create(ctx, write)
	if err != nil {
		return store.Doc{}, h.def.words(err, h.def.missing())
	}
	return doc, h.recheck(ctx, at, up.doc)
}

// first prefers, to an objection against a new document, that it exists already or
// that its parent is missing: both explain the objection.
func (h *handler[T, P]) first(ctx context.Context, at Place, objection error) error {
	if !errs.Is(objection, errs.Conflict) && !errs.Is(objection, errs.NotFound) {
		return objection
	}
	if _, err := h.db.Get(ctx, at.Key); err == nil {
		return errs.New(errs.Exists, h.def.Kind+" already exists")
	}
	if at.Parent == "" {
		return objection
	}
	if _, err := h.db.Get(ctx, at.Parent); errs.Is(err, errs.NotFound) {
		return errs.New(errs.Conflict, textNoParent+": "+string(at.Parent))
	}
	return objection
}

// recheck looks again, now that others can see the new document: of two that came
// at once and exclude each other, at least one sees the other. It then takes its
// own back.
func (h *handler[T, P]) recheck(ctx context.Context, at Place, doc T) error {
	err := h.vacant(ctx, at, doc)
	if err == nil {
		err = h.room(ctx, at)
	}
	if err == nil && h.def.Recheck {
		err = h.def.Check(ctx, at, doc)
	}
	if err == nil {
		return nil
	}
	if undo := h.db.Delete(context.WithoutCancel(ctx), at.Key, nil); undo != nil && !errs.Is(undo, errs.NotFound) {
		return errs.E(errs.Internal, "undo", string(at.Key), undo)
	}
	return err
}

// replace serves PUT.
func (h *handler[T, P]) replace(w http.ResponseWriter, r *http.Request) error {
	at, name, err := h.def.item(r)
	if err != nil {
		return err
	}
	up, err := h.read(w, r, at)
	defer up.discard()
	if err != nil {
		return err
	}
	nameless := P(&up.doc).DocName() == "" && !hasMember(up.text, "metadata")
	P(&up.doc).SetDocName(name)
	if P(&up.doc).DocName() != name {
		return errs.New(errs.Invalid, textMismatch)
	}
	if err := P(&up.doc).Validate(); err != nil {
		return err
	}
	if nameless {
		return errs.New(errs.Invalid, "Invalid Input:\n- metadata: missing; a PUT replaces the whole document, and what it leaves out would be lost")
	}
	doc, existed, err := h.upsert(r, at, up)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if h.def.Put == PutCreated || h.def.Put == PutUpsert && !existed {
		status = http.StatusCreated
	}
	return h.answer(w, status, doc)
}

// hasMember reports whether a JSON text is an object with a member, in any letter case, that is
// not null.
func hasMember(text []byte, name string) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return false
	}
	for key, value := range members {
		if strings.EqualFold(key, name) && string(bytes.TrimSpace(value)) != "null" {
			return true
		}
	}
	return false
}

// upsert replaces the document or creates it. When another writer was faster it starts again: a client that names
// no revision wins, and one that names the former revision gets 412.
func (h *handler[T, P]) upsert(r *http.Request, at Place, up requestContent[T]) (doc store.Doc, existed bool, err error) {
	for range maxRaces {
		old, err := h.load(r.Context(), at.Key)
		switch {
		case errs.Is(err, errs.NotFound) && conditional(r):
			return doc, false, web.WithStatus(http.StatusPreconditionFailed, errs.New(errs.NotFound, h.def.missing()))
		case errs.Is(err, errs.NotFound):
			doc, err = h.insert(r.Context(), at, up)
			if errs.Is(err, errs.Exists) {
				continue
			}
			return doc, false, err
		case err != nil:
			return doc, true, err
		case !matches(r, old.Doc):
			return doc, true, stale(r, old.Doc)
		}
		doc, err = h.update(r.Context(), at, up, old)
		if !h.lost(r.Context(), old.Doc, err) {
			return doc, true, err
		}
	}
	return doc, true, errs.New(errs.Conflict, "many are changing the document at once; try again")
}

// lost reports whether err came about because another writer was faster.
func (h *handler[T, P]) lost(ctx context.Context, old store.Doc, err error) bool {
	if !errs.Is(err, errs.Conflict) && !errs.Is(err, errs.NotFound) {
		return false
	}
	now, getErr := h.db.Get(ctx, old.Key)
	return errs.Is(getErr, errs.NotFound) || getErr == nil && (now.UID != old.UID || now.Rev != old.Rev)
}

// load reads a document with its secret.
func (h *handler[T, P]) load(ctx context.Context, key store.Key) (storedDocument[T], error) {
	doc, err := h.db.Get(ctx, key)
	s := storedDocument[T]{Doc: doc}
	if err == nil && h.def.masksAnswers() {
		s.full, err = store.Decode[T](doc)
	}
	if err != nil || doc.Secret == nil {
		return s, err
	}
	if s.plain, err = h.db.Reveal(ctx, doc); err != nil {
		return s, err
	}
	if h.def.Masking != nil {
		s.full, err = v2.Decode[T](s.plain, v2.Lenient)
	}
	return s, err
}

// update replaces old. It checks the document first, also one with equal content. Then it leaves a document with equal
// content as it is, and does not ask the guard of replacements: applying a file twice changes nothing.
func (h *handler[T, P]) update(ctx context.Context, at Place, up requestContent[T], old storedDocument[T]) (store.Doc, error) {
	up = clone(up)
	if err := h.adopt(&up, old); err != nil {
		return store.Doc{}, err
	}
	write, err := h.write(ctx, at, up, old)
	if err != nil {
		return store.Doc{}, err
	}
	if same(write, old.Doc, old.plain) {
		return old.Doc, up.keep() // the stored file may have been lost
	}
	if err := ask(ctx, h.def.Guards.Replace, old.Doc); err != nil {
		return store.Doc{}, err
	}
	if err := up.keep(); err != nil {
		return store.Doc{}, err
	}
	doc, err := h.db.Replace(ctx, write, old.Rev)
	return doc, h.def.words(err, h.def.missing())
}

// adopt lets the new document keep what the server decided of the stored one.
func (h *handler[T, P]) adopt(up *requestContent[T], old storedDocument[T]) error {
	if h.def.Adopt == nil {
		return nil
	}
	stored, err := store.Decode[T](old.Doc)
	if err != nil {
		return err
	}
	up.plain, err = h.def.Adopt(&up.doc, up.plain, stored, old.plain)
	return err
}

// clone gives an attempt a document of its own: secrets are put into it.
func clone[T any](up requestContent[T]) requestContent[T] {
	var again T
	if text, err := json.Marshal(up.doc); err == nil && json.Unmarshal(text, &again) == nil {
		up.doc = again
	}
	return up
}

// same reports whether a write would change nothing.
func same(w store.Write, old store.Doc, plain seal.Secret) bool {
	return bytes.Equal(w.Body, old.Body) && bytes.Equal(w.Secret, plain) &&
		slices.EqualFunc(w.Blobs, old.Blobs, func(a, b store.Blob) bool { return a.Name == b.Name && a.Digest == b.Digest }) &&
		slices.Equal(keys(w.Refs), old.Refs)
}

// keys returns the keys of references as a document holds them.
func keys(refs []store.Ref) []store.Key {
	var all []store.Key
	for _, ref := range refs {
		all = append(all, ref.Key)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// remove serves DELETE.
func (h *handler[T, P]) remove(w http.ResponseWriter, r *http.Request) error {
	at, _, err := h.def.item(r)
	if err != nil {
		return err
	}
	var objection error
	err = h.db.Delete(r.Context(), at.Key, func(ctx context.Context, doc store.Doc) error {
		objection = h.deletable(ctx, r, doc)
		return objection
	})
	if objection == nil && err != nil {
		objection = h.objection(r.Context(), at, err)
	}
	switch {
	case objection != nil:
		return objection
	case err != nil:
		return h.def.words(err, h.def.absent())
	}
	if h.def.AtItem {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// objection returns why a document cannot be deleted although nothing were below it or referred to it, so that users do not delete
// these in vain; nil if err is not about them, or nobody objects.
func (h *handler[T, P]) objection(ctx context.Context, at Place, err error) error {
	if _, related := errors.AsType[*store.Related](err); !related {
		return nil
	}
	doc, err := h.db.Get(ctx, at.Key)
	if err != nil {
		return nil
	}
	return ask(ctx, h.def.Guards.Delete, doc)
}

// clear deletes all documents of the collection, in order of their names. It stops at the first
// one that cannot be deleted.
func (h *handler[T, P]) clear(w http.ResponseWriter, r *http.Request) error {
	at, err := h.def.place(r)
	if err != nil {
		return err
	}
	if _, err := h.db.Get(r.Context(), at.Parent); err != nil {
		return store.NotFoundAs(err, h.def.Orphan)
	}
	var keys []store.Key
	for doc, err := range h.db.List(r.Context(), at.Collection, store.Query{Depth: h.def.depth()}) {
		if err != nil {
			return err
		}
		keys = append(keys, doc.Key)
	}
	for _, key := range keys {
		err := h.db.Delete(r.Context(), key, func(ctx context.Context, doc store.Doc) error { return h.deletable(ctx, r, doc) })
		if err != nil && !errs.Is(err, errs.NotFound) {
			return h.def.words(err, h.def.absent())
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// deletable asks those who know what runs because of doc, and lets them clean up.
func (h *handler[T, P]) deletable(ctx context.Context, r *http.Request, doc store.Doc) error {
	if !matches(r, doc) {
		return stale(r, doc)
	}
	if err := ask(ctx, h.def.Guards.Delete, doc); err != nil || h.dry {
		return err
	}
	return ask(ctx, h.def.Guards.Deleted, doc)
}

// answer shows a document.
func (h *handler[T, P]) answer(w http.ResponseWriter, status int, doc store.Doc) error {
	body, err := h.def.visible(doc)
	if err != nil {
		return err
	}
	if !h.dry {
		w.Header().Set("ETag", etag(doc))
	}
	return web.Raw(w, status, body)
}

// masksAnswers reports whether bodies hold what must not be shown.
func (d *Def[T]) masksAnswers() bool { return d.Masking != nil && d.Masking.InBody }

// visible returns what clients may see of a document: the body as it is stored, as a
// rule.
func (d *Def[T]) visible(doc store.Doc) ([]byte, error) {
	if !d.masksAnswers() && d.Show == nil {
		return doc.Body, nil
	}
	full, err := store.Decode[T](doc)
	if err != nil {
		return nil, err
	}
	if d.Show != nil {
		return d.Show(full)
	}
	return json.Marshal(d.Masking.Mask(full))
}

// orDryRun serves a write. If the request asks for a dry run, all checks run on a trial of the
// store, and the answer is that of the write without an ETag. params are the parameters of the
// write.
func (h *handler[T, P]) orDryRun(write func(*handler[T, P], http.ResponseWriter, *http.Request) error, params ...string) web.HandlerFunc {
	trials := make(chan struct{}, maxTrials)
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := web.CheckQuery(r.URL.Query(), params...); err != nil {
			return err
		}
		dry, err := web.AsksDryRun(r)
		if err != nil {
			return err
		}
		if !dry {
			return write(h, w, r)
		}
		select {
		case trials <- struct{}{}:
			defer func() { <-trials }()
		default:
			return &errs.Error{Kind: errs.Throttled, Err: errs.New(errs.Throttled, "too many dry runs are under way; try again later"), After: time.Second}
		}
		trial := *h
		trial.dry, trial.db = true, h.db.Trial()
		return write(&trial, w, r.WithContext(context.WithValue(r.Context(), dryRunKey{}, true)))
	}
}
