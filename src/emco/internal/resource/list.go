package resource

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// list serves GET of the collection.
func (h *handler[T, P]) list(w http.ResponseWriter, r *http.Request) error {
	at, err := h.def.place(r)
	if err == nil {
		err = web.CheckQuery(r.URL.Query(), append(h.def.params(false), "limit", "continue")...)
	}
	if err != nil {
		return err
	}
	if done, err := h.query(w, r, at, false); done || err != nil {
		return err
	}
	page, err := pageOf(r.URL.Query(), at.Collection)
	if err != nil {
		return err
	}
	shape := h.def.Shape
	if shape == nil {
		shape = &Shape{Begin: "[", End: "]", Item: h.def.visible}
	}
	if page.limit > 0 {
		return h.page(w, r, at, page, shape)
	}
	docs := h.visibleDocs(r.Context(), at, store.Query{Depth: h.def.depth(), After: page.after})
	return h.stream(w, r, at, docs, shape)
}

// visibleDocs yields the documents of a collection that the caller may read.
func (h *handler[T, P]) visibleDocs(ctx context.Context, at Place, q store.Query) iter.Seq2[store.Doc, error] {
	may, typ := authz.From(ctx), h.typ()
	if h.def.Scope == nil || may.May(authz.List, typ, "") {
		return h.db.List(ctx, at.Collection, q)
	}
	left := q.Limit
	q.Limit = 0 // hidden documents do not count
	return func(yield func(store.Doc, error) bool) {
		for doc, err := range h.db.List(ctx, at.Collection, q) {
			name := strings.TrimPrefix(string(doc.Key), string(at.Collection)+"/")
			if err == nil && !may.May(authz.Get, typ, h.def.Scope(name)) {
				continue
			}
			if !yield(doc, err) || err != nil {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}

// params are the parameters of the queries on items, or on the collection.
func (d *Def[T]) params(onItem bool) (names []string) {
	for _, q := range d.Queries {
		if q.OnItem == onItem {
			names = append(names, q.Param)
		}
	}
	return names
}

// query answers with the first query that feels concerned.
func (h *handler[T, P]) query(w http.ResponseWriter, r *http.Request, at Place, onItem bool) (done bool, err error) {
	values := r.URL.Query()
	for _, q := range h.def.Queries {
		if q.OnItem != onItem || !values.Has(q.Param) {
			continue
		}
		if q.Pick != nil {
			key, err := q.Pick(r.Context(), at, values.Get(q.Param))
			if err != nil {
				return true, h.orphan(r.Context(), at, err)
			}
			return true, h.show(w, r, key)
		}
		body, err := q.Answer(r.Context(), at, values)
		if err != nil {
			return true, h.orphan(r.Context(), at, err)
		}
		if body != nil {
			return true, web.Raw(w, http.StatusOK, body)
		}
	}
	return false, nil
}

// orphan replaces err, unless the parent exists: that it does not explains all else.
func (h *handler[T, P]) orphan(ctx context.Context, at Place, err error) error {
	if at.Parent == "" {
		return err
	}
	if _, missing := h.db.Get(ctx, at.Parent); missing != nil {
		return h.def.words(missing, h.def.Orphan)
	}
	return err
}

// stream writes documents as they come. An error before the first one is answered;
// a later one cuts the connection, so that no half list passes for a whole one.
func (h *handler[T, P]) stream(w http.ResponseWriter, r *http.Request, at Place, docs iter.Seq2[store.Doc, error], shape *Shape) error {
	begun := false
	write := func(text ...string) {
		if !begun {
			w.Header().Set("Content-Type", "application/json")
			begun = true
		}
		for _, t := range text {
			_, _ = w.Write([]byte(t))
		}
	}
	for doc, err := range docs {
		var item []byte
		if err == nil {
			item, err = shape.Item(doc)
		}
		switch {
		case err != nil && begun:
			panic(http.ErrAbortHandler)
		case err != nil:
			return err
		case begun:
			write(",", string(item))
		default:
			write(shape.Begin, string(item))
		}
	}
	if begun {
		write(shape.End, "\n")
		return nil
	}
	if err := h.orphan(r.Context(), at, nil); err != nil {
		return err
	}
	write(shape.Begin, shape.End, "\n")
	return nil
}

// page writes one page; it reads one document more to know whether there is a next.
func (h *handler[T, P]) page(w http.ResponseWriter, r *http.Request, at Place, p page, shape *Shape) error {
	var docs []store.Doc
	q := store.Query{Depth: h.def.depth(), After: p.after, Limit: p.limit + 1}
	for doc, err := range h.visibleDocs(r.Context(), at, q) {
		if err != nil {
			return err
		}
		docs = append(docs, doc)
	}
	if len(docs) > p.limit {
		docs = docs[:p.limit]
		last := strings.TrimPrefix(string(docs[p.limit-1].Key), string(at.Collection)+"/")
		w.Header().Set(web.HeaderContinue, web.Token(last))
	}
	return h.stream(w, r, at, func(yield func(store.Doc, error) bool) {
		for _, doc := range docs {
			if !yield(doc, nil) {
				return
			}
		}
	}, shape)
}

type page struct {
	limit int // 0: no pages
	after store.Key
}

// pageOf reads the parameters limit and continue.
func pageOf(values url.Values, coll store.Key) (page, error) {
	p, err := web.ReadPage(values)
	out := page{limit: p.Limit}
	if p.After != "" {
		out.after = coll + "/" + store.Key(p.After)
	}
	return out, err
}

// slashed serves the collection's queries below the path that ends in a slash;
// without a query that path does not exist.
func (h *handler[T, P]) slashed(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	for _, q := range h.def.Queries {
		if !q.OnItem && values.Has(q.Param) {
			return h.list(w, r)
		}
	}
	return web.NoRoute()
}
