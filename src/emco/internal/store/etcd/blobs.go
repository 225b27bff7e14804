package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/spool"
)

// Blobs is a store.Blobs on etcd. What has arrived and is not stored yet is in a temporary file.
type Blobs struct {
	spool.Keep
	kv *etcdkv.Client
}

var _ store.Blobs = (*Blobs)(nil)

// NewBlobs returns the packages below the client's prefix.
func NewBlobs(kv *etcdkv.Client) *Blobs {
	b := &Blobs{kv: kv}
	b.Keep = b.keep
	return b
}

// content is the value of a package's key.
type content struct {
	Upload string `json:"upload"` // names its chunks
	Size   int64  `json:"size"`
	Chunks int    `json:"n"`
	At     int64  `json:"at"` // when it was put, in milliseconds since 1970
}

func (b *Blobs) contentKey(d manifest.Digest) string { return b.kv.Key("content", "b", string(d)) }

// chunks returns the prefix of the chunks of an upload.
func (b *Blobs) chunks(upload string) string { return b.kv.Key("content", "c", upload) + "/" }

func (b *Blobs) chunk(upload string, n int) string { return fmt.Sprintf("%s%06d", b.chunks(upload), n) }

// keep stores the content, or renews the time of equal content.
func (b *Blobs) keep(ctx context.Context, f *spool.File) error {
	digest, _ := f.Content()
	for range maxTries {
		done, found, err := b.renew(ctx, digest)
		if err == nil && !found {
			done, err = b.upload(ctx, f)
		}
		if done || err != nil {
			return err
		}
	}
	return errs.E(errs.Unavailable, "store", string(digest), errBusy)
}

// renew makes stored content young again; not done if someone else changed it meanwhile.
func (b *Blobs) renew(ctx context.Context, d manifest.Digest) (done, found bool, err error) {
	key := b.contentKey(d)
	c, kv, err := etcdkv.Read[content](ctx, b.kv, key)
	if errs.Is(err, errs.NotFound) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	c.At = time.Now().UnixMilli()
	done, err = b.write(ctx, key, c, clientv3.Compare(clientv3.ModRevision(key), "=", kv.ModRevision))
	return done, true, err
}

// upload writes chunks and then their name; not done if someone else stored equal content meanwhile, or
// removed the chunks because they took too long.
func (b *Blobs) upload(ctx context.Context, f *spool.File) (done bool, err error) {
	digest, size := f.Content()
	c := content{Upload: fmt.Sprintf("%013d-%s", time.Now().UnixMilli(), rand.Text()), Size: size}
	key := b.contentKey(digest)
	conditions := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)}
	reader := f.Reader()
	for left := size; left > 0; left -= chunkSize {
		part := make([]byte, min(left, chunkSize))
		if _, err := io.ReadFull(reader, part); err != nil {
			return false, errs.E(errs.Unavailable, "store", string(digest), err)
		}
		put := clientv3.OpPut(b.chunk(c.Upload, c.Chunks), string(part))
		if _, _, err := b.kv.Commit(ctx, "store "+string(digest), nil, []clientv3.Op{put}); err != nil {
			return false, err
		}
		c.Chunks++
	}
	if c.Chunks > 0 {
		conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(b.chunk(c.Upload, 0)), ">", 0))
	}
	c.At = time.Now().UnixMilli()
	done, err = b.write(ctx, key, c, conditions...)
	if err == nil && !done {
		err = b.remove(ctx, c.Upload)
	}
	return done, err
}

func (b *Blobs) write(ctx context.Context, key string, c content, conditions ...clientv3.Cmp) (bool, error) {
	text, err := etcdkv.Encode(key, c)
	if err != nil {
		return false, err
	}
	_, done, err := b.kv.Commit(ctx, "store "+key, conditions, []clientv3.Op{clientv3.OpPut(key, text)})
	return done, err
}

// remove removes the chunks of an upload.
func (b *Blobs) remove(ctx context.Context, upload string) error {
	all := clientv3.OpDelete(b.chunks(upload), clientv3.WithPrefix())
	_, _, err := b.kv.Commit(ctx, "remove "+upload, nil, []clientv3.Op{all})
	return err
}

// Open implements store.Blobs. It reads chunk by chunk, as the consumer does.
func (b *Blobs) Open(ctx context.Context, d manifest.Digest) (io.ReadCloser, error) {
	if !spool.IsDigest(d) {
		return nil, errs.E(errs.NotFound, "open", "content", errors.New("not a digest"))
	}
	c, _, err := etcdkv.Read[content](ctx, b.kv, b.contentKey(d))
	if err != nil {
		return nil, err
	}
	return &spool.Chunks{N: c.Chunks, Part: func(n int) ([]byte, error) {
		r, err := b.kv.Get(ctx, b.chunk(c.Upload, n))
		if err == nil && len(r.Kvs) == 0 {
			err = errs.E(errs.Unavailable, "read", string(d), errors.New("it was removed meanwhile"))
		}
		if err != nil {
			return nil, err
		}
		return r.Kvs[0].Value, nil
	}}, nil
}

// Sweep implements store.Blobs. It also removes chunks of uploads that were never completed.
func (b *Blobs) Sweep(ctx context.Context, olderThan time.Time, keep func(manifest.Digest) bool) error {
	uploads, err := b.uploads(ctx) // before the list of names: what has one by then is complete
	if err != nil {
		return err
	}
	prefix := b.contentKey("")
	for kv, err := range b.kv.List(ctx, etcdkv.Scan{Prefix: prefix}) {
		if err != nil {
			return err
		}
		c, err := etcdkv.Decode[content](kv)
		if err != nil {
			return err
		}
		delete(uploads, c.Upload)
		if keep(manifest.Digest(strings.TrimPrefix(string(kv.Key), prefix))) || !time.UnixMilli(c.At).Before(olderThan) {
			continue
		}
		same := clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision)
		ops := []clientv3.Op{clientv3.OpDelete(string(kv.Key)), clientv3.OpDelete(b.chunks(c.Upload), clientv3.WithPrefix())}
		if _, _, err := b.kv.Commit(ctx, "sweep "+string(kv.Key), []clientv3.Cmp{same}, ops); err != nil {
			return err
		}
	}
	for upload := range uploads {
		text, _, _ := strings.Cut(upload, "-")
		begun, err := strconv.ParseInt(text, 10, 64)
		if err == nil && !time.UnixMilli(begun).Before(olderThan) {
			continue
		}
		if err := b.remove(ctx, upload); err != nil {
			return err
		}
	}
	return nil
}

// uploads returns the names of all uploads that have chunks.
func (b *Blobs) uploads(ctx context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	prefix := b.kv.Key("content", "c") + "/"
	for kv, err := range b.kv.List(ctx, etcdkv.Scan{Prefix: prefix, KeysOnly: true}) {
		if err != nil {
			return nil, err
		}
		upload, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), prefix), "/")
		out[upload] = true
	}
	return out, nil
}
