// Package blobstore stores content by its digest: objects, bundles, which refer to objects, and long lists
// of clusters. It compresses and seals content, and removes content that nothing refers to (SweepContent).
//
//	blob/<sha256>/<chunk>   compressed content, sealed, in chunks of at most 256 KiB
//	blob/<sha256>/unused    a mark: the last sweep found no reference to it
package blobstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/bytelru"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// Digest names content.
type Digest = manifest.Digest

// maxBlob bounds content before compression: far above what a cluster accepts as one
// object (1.5 MiB), and enough for a bundle of 50,000 objects.
const maxBlob = 16 << 20

// Cache keeps contents and bundles that were read or written, and compressors. What a digest stands for never
// changes.
type Cache struct {
	blobs       *bytelru.Cache[Digest, []byte]
	bundles     *bytelru.Cache[Digest, Bundle]
	compressors sync.Pool // of those who write; what no one uses goes with the garbage
}

// NewCache returns a cache of so many bytes, about.
func NewCache(bytes int) *Cache {
	return &Cache{blobs: bytelru.New[Digest, []byte](bytes * 2 / 3), bundles: bytelru.New[Digest, Bundle](bytes / 3)}
}

// Store stores content by digest, and bundles. It is safe for use by many goroutines.
type Store struct {
	kv     *etcdkv.Client
	cache  *Cache
	sealer *seal.Sealer
}

// New returns a store of the content below the client's prefix. It seals what it writes, unless the sealer is
// nil, and reads what is sealed and what is not.
func New(kv *etcdkv.Client, cache *Cache, sealer *seal.Sealer) *Store {
	return &Store{kv, cache, sealer}
}

func blobKey(kv *etcdkv.Client, d Digest, chunk int) string {
	return kv.Key("blob", string(d), fmt.Sprintf("%04x", chunk))
}

// PutBlobs stores contents that do not exist yet. Calling it again does no harm; after an
// error some may be stored. Invalid if a digest is not that of its content, TooLarge above
// 16 MiB.
func (s *Store) PutBlobs(ctx context.Context, contents map[Digest][]byte) error {
	for d, content := range contents {
		if err := checkContent(d, content); err != nil {
			return err
		}
	}
	absent, err := s.absent(ctx, slices.Sorted(maps.Keys(contents)))
	if err != nil {
		return err
	}
	b := s.kv.NewBatch("blobs")
	p, release := s.packer()
	defer release()
	for _, a := range absent {
		packed, err := p.pack(a.digest, contents[a.digest])
		if err != nil {
			return errs.E(errs.Internal, "compress", "blob "+string(a.digest), err)
		}
		if a.marked { // first: a sweep removes content only while the mark is there
			if err := b.Add(ctx, clientv3.OpDelete(unusedKey(s.kv, a.digest))); err != nil {
				return err
			}
		}
		if err := s.putChunks(ctx, b, a.digest, packed); err != nil {
			return err
		}
	}
	if err := b.Flush(ctx); err != nil {
		return err
	}
	for d, content := range contents {
		s.cache.blobs.Put(d, content, len(content))
	}
	return nil
}

func checkContent(d Digest, content []byte) error {
	if len(content) > maxBlob {
		return errs.E(errs.TooLarge, "store", "blob "+string(d), fmt.Errorf("%d bytes are above the limit of %d", len(content), maxBlob))
	}
	if manifest.DigestOf(content) != d {
		return errs.E(errs.Invalid, "store", "blob "+string(d), errors.New("the digest is not that of the content"))
	}
	return nil
}

// unusedMark is the last part of the key that marks content as unused, see Store.Sweep. It
// follows the chunks.
const unusedMark = "unused"

func unusedKey(kv *etcdkv.Client, d Digest) string { return kv.Key("blob", string(d), unusedMark) }

// absentContent is content that must be written.
type absentContent struct {
	digest Digest
	marked bool // it is stored, and marked as unused
}

// absent returns what is not stored, or is marked as unused, in the given order.
func (s *Store) absent(ctx context.Context, digests []Digest) ([]absentContent, error) {
	var missing []absentContent
	for some := range slices.Chunk(digests, etcdkv.MaxOps) {
		keys := make([]string, len(some))
		for i, d := range some {
			keys[i] = s.kv.Key("blob", string(d)) + "/"
		}
		found, err := s.kv.GetRanges(ctx, keys, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return nil, err
		}
		for i, d := range some {
			n := len(found[i])
			marked := n > 0 && string(found[i][n-1].Key) == unusedKey(s.kv, d)
			if n == 0 || marked || string(found[i][0].Key) != blobKey(s.kv, d, 0) {
				missing = append(missing, absentContent{d, marked})
			}
		}
	}
	return missing, nil
}

// putChunks adds the chunks of a blob to b, chunk 0 last.
func (s *Store) putChunks(ctx context.Context, b *etcdkv.Batch, d Digest, packed []byte) error {
	chunks := slices.Collect(slices.Chunk(packed, etcdkv.MaxValue))
	for i, chunk := range slices.Backward(chunks) {
		if err := b.Add(ctx, clientv3.OpPut(blobKey(s.kv, d, i), string(chunk))); err != nil {
			return err
		}
	}
	return nil
}

// Missing returns the digests whose content is not stored, in the given order.
func (s *Store) Missing(ctx context.Context, digests []Digest) ([]Digest, error) {
	keys := make([]string, len(digests))
	for i, d := range digests {
		keys[i] = blobKey(s.kv, d, 0)
	}
	var missing []Digest
	err := s.kv.GetEach(ctx, keys, func(i int, kv *mvccpb.KeyValue) error {
		if kv == nil {
			missing = append(missing, digests[i])
		}
		return nil
	}, clientv3.WithKeysOnly())
	return missing, err
}

// GetBlob returns the content of digest d, or NotFound. The content is shared and must not
// be changed. Content that no longer matches its digest is an Internal error.
func (s *Store) GetBlob(ctx context.Context, d Digest) ([]byte, error) {
	if content, ok := s.cache.blobs.Get(d); ok {
		return content, nil
	}
	content, err := s.readBlob(ctx, d)
	if err == nil {
		s.cache.blobs.Put(d, content, len(content))
	}
	return content, err
}

// readTries bounds how often a reader starts over because its content was resealed meanwhile.
const readTries = 4

// readBlob reads content from etcd. The chunks of one content are read one after another, so a reader that
// finds chunks of two sealings starts over.
func (s *Store) readBlob(ctx context.Context, d Digest) ([]byte, error) {
	content, first, err := s.tryBlob(ctx, d)
	for try := 1; err != nil && first != 0 && try < readTries; try++ {
		r, e := s.kv.Get(ctx, blobKey(s.kv, d, 0), clientv3.WithKeysOnly())
		if e != nil || len(r.Kvs) == 0 || r.Kvs[0].ModRevision == first {
			break
		}
		content, first, err = s.tryBlob(ctx, d)
	}
	return content, err
}

// tryBlob also returns etcd's revision of the first chunk; 0 if there is none.
func (s *Store) tryBlob(ctx context.Context, d Digest) (content []byte, first int64, err error) {
	subject := "blob " + string(d)
	if err := etcdkv.CheckParts(string(d)); err != nil {
		return nil, 0, err
	}
	r, err := s.kv.Get(ctx, blobKey(s.kv, d, 0))
	if err != nil {
		return nil, 0, err
	}
	if len(r.Kvs) == 0 {
		return nil, 0, etcdkv.NotFound(subject)
	}
	first = r.Kvs[0].ModRevision
	h, body, err := unpackHeader(r.Kvs[0].Value)
	if err != nil {
		return nil, first, etcdkv.Corrupt(subject, err)
	}
	if body, err = s.readChunks(ctx, d, h, body); err != nil {
		return nil, first, err
	}
	if h.sealed {
		if body, err = s.open(ctx, d, body); err != nil {
			return nil, first, err
		}
	}
	if content, err = unpack(h, body); err != nil {
		return nil, first, etcdkv.Corrupt(subject, err)
	}
	if got := manifest.DigestOf(content); got != d {
		return nil, first, etcdkv.Corrupt(subject, fmt.Errorf("the content's digest is %s", got))
	}
	return content, first, nil
}

// open decrypts the body of sealed content.
func (s *Store) open(ctx context.Context, d Digest, body []byte) ([]byte, error) {
	if s.sealer == nil {
		return nil, errs.E(errs.Unavailable, "unseal", "blob "+string(d), seal.ErrNoKey)
	}
	plain, err := s.sealer.Open(ctx, body, place(d)...)
	if err != nil {
		return nil, errs.E(errs.KindOf(err), "unseal", "blob "+string(d), err)
	}
	return plain, nil
}

// readChunks appends chunks 1… to body.
func (s *Store) readChunks(ctx context.Context, d Digest, h blobHeader, body []byte) ([]byte, error) {
	for i := 1; i < h.chunks; i++ {
		r, err := s.kv.Get(ctx, blobKey(s.kv, d, i))
		if err != nil {
			return nil, err
		}
		if len(r.Kvs) == 0 {
			return nil, etcdkv.Corrupt("blob "+string(d), fmt.Errorf("chunk %d of %d is missing", i, h.chunks))
		}
		body = append(body, r.Kvs[0].Value...)
	}
	return body, nil
}
