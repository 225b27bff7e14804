package mongo

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const version = 1 // of the format; a document of a later one is not touched

// record is a document as MongoDB keeps it. Times are milliseconds since 1970.
type record struct {
	Key     store.Key   `bson:"_id"`
	Version int         `bson:"v"`
	Depth   int         `bson:"depth"` // slashes in the key
	Tag     int64       `bson:"tag"`
	State   store.State `bson:"state"`
	Since   int64       `bson:"since"`
	UID     string      `bson:"uid"`
	Rev     int64       `bson:"rev"`
	Parent  store.Key   `bson:"parent"`
	Refs    []store.Key `bson:"refs,omitempty"`
	Claims  []store.Key `bson:"claims,omitempty"`
	Holds   []store.Key `bson:"holds,omitempty"` // refs and claims, each once
	Blobs   []blob      `bson:"blobs,omitempty"`
	Created int64       `bson:"created"`
	Updated int64       `bson:"updated"`
	Body    []byte      `bson:"body,omitempty"`
	Secret  []byte      `bson:"secret,omitempty"`
}

type blob struct {
	Name   string          `bson:"name"`
	File   string          `bson:"file"`
	Digest manifest.Digest `bson:"digest"`
	Size   int64           `bson:"size"`
}

func recordOf(d store.Doc) record {
	holds := slices.Concat(d.Refs, d.Claims)
	slices.Sort(holds)
	r := record{
		Key: d.Key, Version: version, Depth: depth(d.Key), Tag: d.Tag, State: d.State, Since: d.Since.UnixMilli(),
		UID: d.UID, Rev: d.Rev, Parent: d.Parent, Refs: d.Refs, Claims: d.Claims, Holds: slices.Compact(holds),
		Created: d.Created.UnixMilli(), Updated: d.Updated.UnixMilli(), Body: d.Body, Secret: d.Secret,
	}
	for _, b := range d.Blobs {
		r.Blobs = append(r.Blobs, blob(b))
	}
	return r
}

func (r record) doc() (store.Doc, error) {
	if r.Version > version {
		return store.Doc{}, tooNew(r.Key, r.Version)
	}
	d := store.Doc{
		Key: r.Key, UID: r.UID, Rev: r.Rev, Parent: r.Parent, Refs: r.Refs, Claims: r.Claims, Body: r.Body, Secret: r.Secret,
		Created: moment(r.Created), Updated: moment(r.Updated), State: r.State, Tag: r.Tag, Since: moment(r.Since),
	}
	for _, b := range r.Blobs {
		d.Blobs = append(d.Blobs, store.Blob(b))
	}
	return d, nil
}

func depth(k store.Key) int { return strings.Count(string(k), "/") }

func moment(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// List implements store.Driver. Nothing is open between pages.
func (d *Driver) List(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	return store.Pages(q, page, func(q store.Query, n int) ([]store.Doc, error) {
		found, err := d.page(ctx, under, q, n)
		if err != nil {
			return nil, classify("list", under, err)
		}
		docs := make([]store.Doc, 0, len(found))
		for _, r := range found {
			doc, err := r.doc()
			if err != nil {
				return docs, err
			}
			docs = append(docs, doc)
		}
		return docs, nil
	})
}

// page reads the next n documents of a list.
func (d *Driver) page(ctx context.Context, under store.Key, q store.Query, n int) (found []record, err error) {
	err = d.reach.within(ctx, "list", string(under), func(ctx context.Context) error {
		return d.newest(ctx, func(ctx context.Context) error {
			cursor, err := d.docs.Find(ctx, filter(under, q), options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(int64(n)))
			if err == nil {
				err = cursor.All(ctx, &found)
			}
			return err
		})
	})
	return found, err
}

func filter(under store.Key, q store.Query) bson.D {
	f, keys := bson.D{}, bson.D{}
	after := string(q.After)
	if under != "" { // "0" is the character after "/"
		keys = append(keys, bson.E{Key: "$lt", Value: string(under) + "0"})
		after = max(after, string(under)+"/")
	}
	if after != "" {
		keys = append(keys, bson.E{Key: "$gt", Value: after})
	}
	if len(keys) > 0 {
		f = append(f, bson.E{Key: "_id", Value: keys})
	}
	if q.Refers != "" {
		f = append(f, bson.E{Key: "holds", Value: string(q.Refers)})
	}
	if q.Depth > 0 {
		from := -1
		if under != "" {
			from = depth(under)
		}
		f = append(f, bson.E{Key: "depth", Value: from + q.Depth})
	}
	return f
}
