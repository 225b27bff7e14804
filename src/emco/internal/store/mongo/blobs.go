package mongo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/spool"
)

const (
	chunkSize = 1 << 20          // bytes of a chunk
	keepLimit = 10 * time.Minute // the longest upload of chunks
	orphanAge = 24 * time.Hour   // of chunks without a package, at least; far above keepLimit
)

// Blobs is a store.Blobs on MongoDB. What has arrived and is not stored yet is in a temporary file.
type Blobs struct {
	spool.Keep
	blobs, chunks *mongo.Collection
	reach         *reachability // of the client
}

func newBlobs(db *mongo.Database, r *reachability) *Blobs {
	b := &Blobs{blobs: db.Collection("blobs"), chunks: db.Collection("chunks"), reach: r}
	b.Keep = func(ctx context.Context, f *spool.File) error {
		return r.within(ctx, "store", "package", func(ctx context.Context) error { return b.keep(ctx, f) })
	}
	return b
}

var _ store.Blobs = (*Blobs)(nil)

// content is a package.
type content struct {
	Digest manifest.Digest `bson:"_id"`
	Upload string          `bson:"upload"` // names its chunks
	Size   int64           `bson:"size"`
	Chunks int             `bson:"n"`
	At     int64           `bson:"at"` // when it was put, in milliseconds since 1970
}

type chunk struct {
	ID     string `bson:"_id"` // upload and number
	Upload string `bson:"upload"`
	Begun  int64  `bson:"begun"` // of the upload, in milliseconds since 1970
	Data   []byte `bson:"data"`
}

func chunkID(upload string, n int) string { return fmt.Sprintf("%s/%06d", upload, n) }

// keep stores the content, or renews the time of equal content.
func (b *Blobs) keep(ctx context.Context, f *spool.File) error {
	ctx, cancel := context.WithTimeout(ctx, keepLimit)
	defer cancel()
	digest, _ := f.Content()
	for range maxTries {
		renewed, err := b.blobs.UpdateOne(ctx, bson.D{{Key: "_id", Value: string(digest)}}, bson.D{{Key: "$set", Value: bson.D{{Key: "at", Value: time.Now().UnixMilli()}}}})
		if err != nil || renewed.MatchedCount > 0 {
			return classify("store", "package", err)
		}
		done, err := b.upload(ctx, f)
		if done || err != nil {
			return classify("store", "package", err)
		}
	}
	return errs.E(errs.Unavailable, "store", string(digest), errors.New("others store and remove it all the time, try again"))
}

// upload writes chunks and then their name; not done if someone else stored equal content meanwhile.
func (b *Blobs) upload(ctx context.Context, f *spool.File) (done bool, err error) {
	digest, size := f.Content()
	c := content{Digest: digest, Upload: rand.Text(), Size: size}
	begun, reader := time.Now().UnixMilli(), f.Reader()
	for left := size; left > 0; left -= chunkSize {
		part := make([]byte, min(left, chunkSize))
		if _, err := io.ReadFull(reader, part); err != nil {
			return false, errs.E(errs.Unavailable, "store", string(digest), err)
		}
		if _, err := b.chunks.InsertOne(ctx, chunk{ID: chunkID(c.Upload, c.Chunks), Upload: c.Upload, Begun: begun, Data: part}); err != nil {
			return false, err
		}
		c.Chunks++
	}
	c.At = time.Now().UnixMilli()
	_, err = b.blobs.InsertOne(ctx, c)
	if mongo.IsDuplicateKeyError(err) {
		return false, b.remove(ctx, c.Upload)
	}
	return err == nil, err
}

// remove removes the chunks of an upload.
func (b *Blobs) remove(ctx context.Context, upload string) error {
	_, err := b.chunks.DeleteMany(ctx, bson.D{{Key: "upload", Value: upload}})
	return err
}

// Open implements store.Blobs. It reads chunk by chunk, as the consumer does.
func (b *Blobs) Open(ctx context.Context, d manifest.Digest) (io.ReadCloser, error) {
	var c content
	err := b.find(ctx, b.blobs, string(d), &c)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, errs.E(errs.NotFound, "open", string(d), errors.New("not found"))
	}
	if err != nil {
		return nil, classify("open", store.Key(d), err)
	}
	return &spool.Chunks{N: c.Chunks, Part: func(n int) ([]byte, error) {
		var part chunk
		err := b.find(ctx, b.chunks, chunkID(c.Upload, n), &part)
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil, errs.E(errs.Unavailable, "read", string(d), errors.New("it was removed meanwhile"))
		}
		return part.Data, classify("read", store.Key(d), err)
	}}, nil
}

// find reads what has an id.
func (b *Blobs) find(ctx context.Context, in *mongo.Collection, id string, into any) error {
	return b.reach.within(ctx, "read", "package", func(ctx context.Context) error {
		return in.FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Decode(into)
	})
}

// Sweep implements store.Blobs. It also removes chunks of uploads that were never completed.
func (b *Blobs) Sweep(ctx context.Context, olderThan time.Time, keep func(manifest.Digest) bool) error {
	return b.reach.within(ctx, "sweep", "packages", func(ctx context.Context) error { return b.sweep(ctx, olderThan, keep) })
}

func (b *Blobs) sweep(ctx context.Context, olderThan time.Time, keep func(manifest.Digest) bool) error {
	cursor, err := b.blobs.Find(ctx, bson.D{{Key: "at", Value: bson.D{{Key: "$lt", Value: olderThan.UnixMilli()}}}})
	if err != nil {
		return classify("sweep", "packages", err)
	}
	var old []content
	if err := cursor.All(ctx, &old); err != nil {
		return classify("sweep", "packages", err)
	}
	for _, c := range old {
		if keep(c.Digest) {
			continue
		}
		gone, err := b.blobs.DeleteOne(ctx, bson.D{{Key: "_id", Value: string(c.Digest)}, {Key: "at", Value: c.At}})
		if err == nil && gone.DeletedCount > 0 {
			err = b.remove(ctx, c.Upload)
		}
		if err != nil {
			return classify("sweep", store.Key(c.Digest), err)
		}
	}
	return classify("sweep", "chunks", b.sweepChunks(ctx))
}

// sweepChunks removes old chunks that belong to no package. By then their upload has ended.
func (b *Blobs) sweepChunks(ctx context.Context) error {
	before := time.Now().Add(-orphanAge).UnixMilli()
	cursor, err := b.chunks.Find(ctx, bson.D{{Key: "begun", Value: bson.D{{Key: "$lt", Value: before}}}}, options.Find().SetProjection(bson.D{{Key: "upload", Value: 1}}))
	if err != nil {
		return err
	}
	var old []chunk
	if err := cursor.All(ctx, &old); err != nil {
		return err
	}
	uploads := map[string]bool{}
	for _, c := range old {
		uploads[c.Upload] = true
	}
	for upload := range uploads {
		n, err := b.blobs.CountDocuments(ctx, bson.D{{Key: "upload", Value: upload}})
		if err == nil && n == 0 {
			err = b.remove(ctx, upload)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
