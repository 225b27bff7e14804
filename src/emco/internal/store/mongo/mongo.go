// Package mongo stores documents and packages in MongoDB, or in a server that speaks its protocol. It needs
// neither transactions nor change streams nor a replica set; with a replica set it writes to a majority and
// reads what a majority has.
//
//	docs     one document each; _id is the key
//	changes  announced writes, see journal
//	blobs    packages by digest, with the name of the upload that holds their chunks
//	chunks   the content of packages
//	barrier  written before lists, so that a server that was deposed cannot answer
package mongo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	connectTimeout = 10 * time.Second // until a server is found
	requestTimeout = 30 * time.Second // of one call of the driver
	page           = 64               // documents in one answer of a list
)

// Driver is a store.Driver on MongoDB.
type Driver struct {
	client     *mongo.Client
	docs       *mongo.Collection
	exact      *mongo.Collection // docs, read so that every write that was answered is seen
	barrier    *mongo.Collection
	replicated bool
	journal    *journal
	reach      *reachability // of the client
}

var (
	_ store.Driver   = (*Driver)(nil)
	_ store.Follower = (*Driver)(nil)
)

// CheckURI reports what is wrong with the address of a server, such as a certificate that cannot be read.
func CheckURI(uri string) error {
	_, err := clientOptions(uri)
	return err
}

func clientOptions(uri string) (*options.ClientOptions, error) {
	o := options.Client().ApplyURI(uri).SetAppName("emco").SetServerSelectionTimeout(connectTimeout).SetTimeout(requestTimeout)
	if err := o.Validate(); err != nil {
		return nil, errs.E(errs.Invalid, "read", "the URI of MongoDB", withoutURI(err, uri))
	}
	return o, nil
}

// withoutURI removes the URI from an error: it may hold a password.
func withoutURI(err error, uri string) error {
	return errors.New(strings.ReplaceAll(err.Error(), uri, "***"))
}

// Open connects to a server, and makes the collections of a database if they do not exist. Close the driver
// after use.
func Open(ctx context.Context, uri, database string) (*Driver, *Blobs, error) {
	client, r, err := connect(uri)
	if err != nil {
		return nil, nil, err
	}
	d, b, err := prepare(ctx, client, database, r)
	if err != nil {
		return nil, nil, errors.Join(err, client.Disconnect(context.WithoutCancel(ctx)))
	}
	return d, b, nil
}

// connect returns a client, and what it knows of the servers. It does not wait for them.
func connect(uri string) (*mongo.Client, *reachability, error) {
	o, err := clientOptions(uri)
	if err != nil {
		return nil, nil, err
	}
	r := &reachability{}
	client, err := mongo.Connect(o.SetServerMonitor(&event.ServerMonitor{TopologyDescriptionChanged: r.topologyChanged}))
	if err != nil {
		return nil, nil, errs.E(errs.Invalid, "connect", "MongoDB", withoutURI(err, uri))
	}
	return client, r, nil
}

func prepare(ctx context.Context, client *mongo.Client, database string, r *reachability) (*Driver, *Blobs, error) {
	var hello struct {
		SetName string `bson:"setName"`
	}
	if err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil {
		return nil, nil, classify("connect", "MongoDB", err)
	}
	d, b := newDriver(client, database, hello.SetName != "", r)
	for _, keys := range []bson.D{{{Key: "depth", Value: 1}, {Key: "_id", Value: 1}}, {{Key: "holds", Value: 1}, {Key: "_id", Value: 1}}} {
		if _, err := d.docs.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: keys}); err != nil { // FerretDB fails on several at once
			return nil, nil, classify("create an index of", "docs", err)
		}
	}
	if _, err := b.chunks.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "upload", Value: 1}}}); err != nil {
		return nil, nil, classify("create an index of", "chunks", err)
	}
	return d, b, nil
}

func newDriver(client *mongo.Client, database string, replicated bool, r *reachability) (*Driver, *Blobs) {
	journaled := true
	o := options.Database()
	if replicated {
		o.SetWriteConcern(&writeconcern.WriteConcern{W: "majority", Journal: &journaled}).SetReadConcern(readconcern.Majority())
	} else {
		o.SetWriteConcern(&writeconcern.WriteConcern{W: 1, Journal: &journaled})
	}
	db := client.Database(database, o)
	d := &Driver{client: client, docs: db.Collection("docs"), exact: db.Collection("docs"), barrier: db.Collection("barrier"), replicated: replicated, reach: r}
	if replicated {
		d.exact = db.Collection("docs", options.Collection().SetReadConcern(readconcern.Linearizable()))
	}
	d.journal = newJournal(table{db.Collection("changes"), d.docs}, r, time.Now)
	return d, newBlobs(db, r)
}

// Close disconnects; current calls fail.
func (d *Driver) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	return d.client.Disconnect(ctx)
}

// newest has read see every write that was answered before the call: a replica set answers from a server
// that led at a moment within the call.
func (d *Driver) newest(ctx context.Context, read func(context.Context) error) error {
	if !d.replicated {
		return read(ctx)
	}
	session, err := d.client.StartSession(options.Session().SetCausalConsistency(true))
	if err != nil {
		return err
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	ctx = mongo.NewSessionContext(ctx, session)
	raise := bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: int64(1)}}}}
	if _, err := d.barrier.UpdateOne(ctx, bson.D{{Key: "_id", Value: "barrier"}}, raise, options.UpdateOne().SetUpsert(true)); err != nil {
		return err
	}
	return read(ctx)
}

// Get implements store.Driver.
func (d *Driver) Get(ctx context.Context, k store.Key) (doc store.Doc, err error) {
	err = d.reach.within(ctx, "get", string(k), func(ctx context.Context) error {
		doc, err = d.get(ctx, k)
		return err
	})
	return doc, err
}

func (d *Driver) get(ctx context.Context, k store.Key) (store.Doc, error) {
	var r record
	err := d.exact.FindOne(ctx, bson.D{{Key: "_id", Value: string(k)}}).Decode(&r)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return store.Doc{}, errs.E(errs.NotFound, "get", string(k), errors.New("not found"))
	}
	if err != nil {
		return store.Doc{}, classify("get", k, err)
	}
	return r.doc()
}

var errChanged = errors.New("someone else changed it")

// Put implements store.Driver.
func (d *Driver) Put(ctx context.Context, doc store.Doc, at int64) error {
	return d.reach.within(ctx, "put", string(doc.Key), func(ctx context.Context) error { return d.put(ctx, doc, at) })
}

func (d *Driver) put(ctx context.Context, doc store.Doc, at int64) error {
	if err := d.unlike(ctx, "put", doc.Key, at); err != nil {
		return err
	}
	if err := d.journal.announce(ctx, doc.Key, at, doc.Tag); err != nil {
		return classify("put", doc.Key, err)
	}
	r := recordOf(doc)
	if at == 0 {
		_, err := d.docs.InsertOne(ctx, r)
		if mongo.IsDuplicateKeyError(err) {
			return errs.E(errs.Exists, "put", string(doc.Key), errors.New("exists already"))
		}
		return classify("put", doc.Key, err)
	}
	done, err := d.docs.ReplaceOne(ctx, tagged(doc.Key, at), r)
	if err == nil && done.MatchedCount == 0 {
		return errs.E(errs.Conflict, "put", string(doc.Key), errChanged)
	}
	return classify("put", doc.Key, err)
}

// unlike refuses a write that would fail, so that it needs no announcement.
func (d *Driver) unlike(ctx context.Context, op string, k store.Key, at int64) error {
	var r struct {
		Version int   `bson:"v"`
		Tag     int64 `bson:"tag"`
	}
	found := options.FindOne().SetProjection(bson.D{{Key: "tag", Value: 1}, {Key: "v", Value: 1}})
	err := d.docs.FindOne(ctx, bson.D{{Key: "_id", Value: string(k)}}, found).Decode(&r)
	switch {
	case err != nil && !errors.Is(err, mongo.ErrNoDocuments):
		return classify(op, k, err)
	case r.Version > version:
		return tooNew(k, r.Version)
	case at == 0 && r.Tag != 0:
		return errs.E(errs.Exists, op, string(k), errors.New("exists already"))
	case at != r.Tag:
		return errs.E(errs.Conflict, op, string(k), errChanged)
	}
	return nil
}

// Remove implements store.Driver.
func (d *Driver) Remove(ctx context.Context, k store.Key, at int64) error {
	return d.reach.within(ctx, "remove", string(k), func(ctx context.Context) error { return d.remove(ctx, k, at) })
}

func (d *Driver) remove(ctx context.Context, k store.Key, at int64) error {
	if err := d.unlike(ctx, "remove", k, at); err != nil {
		if _, e := d.get(ctx, k); errs.Is(e, errs.NotFound) {
			return nil
		}
		return err
	}
	if err := d.journal.announce(ctx, k, at, 0); err != nil {
		return classify("remove", k, err)
	}
	done, err := d.docs.DeleteOne(ctx, tagged(k, at))
	if err != nil || done.DeletedCount > 0 {
		return classify("remove", k, err)
	}
	if _, err := d.get(ctx, k); err != nil {
		if errs.Is(err, errs.NotFound) {
			return nil
		}
		return err
	}
	return errs.E(errs.Conflict, "remove", string(k), errChanged)
}

// tagged selects a document if it has a tag.
func tagged(k store.Key, at int64) bson.D {
	return bson.D{{Key: "_id", Value: string(k)}, {Key: "tag", Value: at}}
}

// Changes implements store.Follower. A mark is the number of a line of the journal.
func (d *Driver) Changes(ctx context.Context, mark int64) (out store.Changes, err error) {
	err = d.reach.within(ctx, "list", "changes", func(ctx context.Context) error {
		return d.newest(ctx, func(ctx context.Context) error {
			out, err = d.journal.changes(ctx, mark)
			return err
		})
	})
	return out, classify("list", "changes", err)
}

// table implements lineStore.
type table struct {
	changes, docs *mongo.Collection
}

func (t table) newest(ctx context.Context) (int64, error) {
	var l line
	err := t.changes.FindOne(ctx, bson.D{}, options.FindOne().SetSort(bson.D{{Key: "_id", Value: -1}})).Decode(&l)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return 0, nil
	}
	return l.N, err
}

func (t table) insert(ctx context.Context, all []line) (int, error) {
	_, err := t.changes.InsertMany(ctx, all, options.InsertMany().SetOrdered(true))
	if !mongo.IsDuplicateKeyError(err) {
		return len(all), err
	}
	if bulk, ok := errors.AsType[mongo.BulkWriteException](err); ok && len(bulk.WriteErrors) > 0 {
		return bulk.WriteErrors[0].Index, errTaken
	}
	return 0, errTaken
}

func (t table) from(ctx context.Context, n int64) ([]line, error) {
	cursor, err := t.changes.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: n}}}}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		return nil, err
	}
	var all []line
	err = cursor.All(ctx, &all)
	return all, err
}

// lookups is how many tags one request reads.
const lookups = 500

func (t table) tags(ctx context.Context, keys []store.Key) (map[store.Key]int64, error) {
	out := make(map[store.Key]int64, len(keys))
	for len(keys) > 0 {
		some := keys[:min(len(keys), lookups)]
		keys = keys[len(some):]
		cursor, err := t.docs.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: some}}}}, options.Find().SetProjection(bson.D{{Key: "tag", Value: 1}}))
		if err != nil {
			return nil, err
		}
		var found []struct {
			Key store.Key `bson:"_id"`
			Tag int64     `bson:"tag"`
		}
		if err := cursor.All(ctx, &found); err != nil {
			return nil, err
		}
		for _, d := range found {
			out[d.Key] = d.Tag
		}
	}
	return out, nil
}

func (t table) raise(ctx context.Context, k store.Key, at int64) error {
	_, err := t.docs.UpdateOne(ctx, tagged(k, at), bson.D{{Key: "$set", Value: bson.D{{Key: "tag", Value: newTag()}}}})
	return err
}

func (t table) drop(ctx context.Context, upTo int64) error {
	_, err := t.changes.DeleteMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$lte", Value: upTo}}}})
	return err
}

// passing are the codes of errors that pass without help: no primary, a server that stops, time-outs.
var passing = map[int]bool{6: true, 7: true, 50: true, 64: true, 89: true, 91: true, 189: true, 262: true, 9001: true, 10107: true, 11600: true, 11602: true, 13435: true, 13436: true}

// poolError is an error of a client's connections, which it drops when one of them fails.
type poolError interface {
	error
	Retryable() bool
}

// unreachable reports errors on the way to the server that the client does not call errors of the network: those
// before a request has a connection.
func unreachable(err error) bool {
	pool, ok := errors.AsType[poolError](err)
	_, network := errors.AsType[net.Error](err)
	return ok && pool.Retryable() || network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// classify gives an error of MongoDB or of the context a kind. A write may have been made after an
// Unavailable.
func classify(op string, k store.Key, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*errs.Error](err); ok {
		return err
	}
	kind := errs.Internal
	if mongo.IsTimeout(err) || mongo.IsNetworkError(err) || unreachable(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, mongo.ErrClientDisconnected) {
		kind = errs.Unavailable
	}
	if s, ok := errors.AsType[mongo.ServerError](err); ok {
		for code := range passing {
			if s.HasErrorCode(code) {
				kind = errs.Unavailable
			}
		}
	}
	if w, ok := errors.AsType[mongo.WriteException](err); ok && w.WriteConcernError != nil {
		kind = errs.Unavailable
	}
	return errs.E(kind, op, string(k), err)
}

func tooNew(k store.Key, v int) error {
	return errs.E(errs.Unavailable, "read", string(k), fmt.Errorf("a later version of this program wrote it (format %d, this one knows %d): update this program", v, version))
}
