package resource

import (
	"reflect"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Description is what a declaration promises to clients. The REST reference shows it.
type Description struct {
	Kind       string // as in messages
	Document   string // name of the type in package v2
	Collection string
	Item       string
	Put        Put
	Clear      bool // DELETE of the collection empties it
	AtItem     bool // POST of an item creates it, and DELETE of an item is 200
	Root       bool // the collection has no parent
	Explicit   bool // POST below a missing parent is 404, otherwise 409
	File       bool // a file comes with the document
	Optional   bool // some documents have no file
	FileLimit  int64
	Masked     bool        // some members are write-only
	Needs      bool        // documents that it names must exist
	Guarded    bool        // what runs may forbid a change or deletion
	Forbids    string      // when a document is refused with 403 although a role allows the request
	Queries    []string    // parameters of GET of the collection
	OnItem     []string    // parameters of GET of an item
	Members    []v2.Member // of a document
	Shaped     bool        // a list is no array of documents
}

// Described is implemented by the handlers of a resource's routes.
type Described interface{ Describe() Description }

// endpoint is the handler of one route.
type endpoint struct {
	web.HandlerFunc
	describe func() Description
	need     authz.Permission
}

func (e endpoint) Permission() authz.Permission { return e.need }

func (e endpoint) Describe() Description { return e.describe() }

func (d Def[T]) describe() Description {
	out := Description{
		Kind: d.Kind, Document: reflect.TypeFor[T]().Name(), Collection: d.Collection, Item: d.Item, Put: d.Put, Clear: d.Clear, AtItem: d.AtItem,
		Root: d.Orphan == "", Explicit: d.Explicit, Masked: d.Masking != nil, Needs: d.Needs != nil, Forbids: d.Forbids,
		Members: v2.MembersOf[T](), Shaped: d.Shape != nil,
		Guarded: d.Guards.Create != nil || d.Guards.Replace != nil || d.Guards.Delete != nil,
	}
	if f := d.File; f != nil {
		out.File, out.Optional, out.FileLimit = true, f.Needed != nil, f.Limit
	}
	for _, q := range d.Queries {
		if q.OnItem {
			out.OnItem = append(out.OnItem, q.Param)
		} else {
			out.Queries = append(out.Queries, q.Param)
		}
	}
	return out
}
