package appcontext

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// maxBlob bounds content before compression: far above what a cluster accepts as one
// object (1.5 MiB), and enough for a bundle of 50,000 objects.
const maxBlob = 16 << 20

// A blob is stored as: format (1 byte), number of chunks and size of the content as
// varints, then the compressed content, in chunks of at most etcdkv.MaxValue. Chunk 0 is
// written last, so content exists when chunk 0 does.
const flateFormat = 1

// ContentStore stores content by digest, and bundles, which are lists of content.
type ContentStore struct {
	kv      *etcdkv.Client
	blobs   *byteLRU[Digest, []byte]
	bundles *byteLRU[Digest, Bundle]
}

func blobKey(kv *etcdkv.Client, d Digest, chunk int) string {
	return kv.Key("blob", string(d), fmt.Sprintf("%04x", chunk))
}

// PutBlobs stores contents that do not exist yet. Calling it again does no harm; after an
// error some may be stored. Invalid if a digest is not that of its content, TooLarge above
// 16 MiB.
func (s *ContentStore) PutBlobs(ctx context.Context, contents map[Digest][]byte) error {
	for d, content := range contents {
		if err := checkContent(d, content); err != nil {
			return err
		}
	}
	absent, err := s.absent(ctx, slices.Sorted(maps.Keys(contents)))
	if err != nil {
		return err
	}
	b, p := s.kv.NewBatch("blobs"), newPacker()
	for _, a := range absent {
		packed, err := p.pack(contents[a.digest])
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
		s.blobs.put(d, content, len(content))
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
func (s *ContentStore) absent(ctx context.Context, digests []Digest) ([]absentContent, error) {
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
func (s *ContentStore) putChunks(ctx context.Context, b *etcdkv.Batch, d Digest, packed []byte) error {
	chunks := slices.Collect(slices.Chunk(packed, etcdkv.MaxValue))
	for i, chunk := range slices.Backward(chunks) {
		if err := b.Add(ctx, clientv3.OpPut(blobKey(s.kv, d, i), string(chunk))); err != nil {
			return err
		}
	}
	return nil
}

// packer compresses one content after another with one compressor, which is large.
type packer struct {
	w    *flate.Writer
	body bytes.Buffer
}

func newPacker() *packer {
	w, err := flate.NewWriter(io.Discard, flate.DefaultCompression)
	if err != nil {
		panic(err) // the level is a constant
	}
	return &packer{w: w}
}

// pack returns the header and the compressed content.
func (p *packer) pack(content []byte) ([]byte, error) {
	p.body.Reset()
	p.w.Reset(&p.body)
	if _, err := p.w.Write(content); err != nil {
		return nil, err
	}
	if err := p.w.Close(); err != nil {
		return nil, err
	}
	for chunks := uint64(1); ; chunks++ {
		head := binary.AppendUvarint([]byte{flateFormat}, chunks)
		head = binary.AppendUvarint(head, uint64(len(content)))
		if len(head)+p.body.Len() <= int(chunks)*etcdkv.MaxValue {
			return append(head, p.body.Bytes()...), nil
		}
	}
}

type blobHeader struct {
	chunks int
	size   int
}

// unpackHeader reads the header and returns what follows it.
func unpackHeader(packed []byte) (blobHeader, []byte, error) {
	if len(packed) == 0 || packed[0] != flateFormat {
		return blobHeader{}, nil, errors.New("unknown format")
	}
	chunks, n := binary.Uvarint(packed[1:])
	if n <= 0 || chunks == 0 || chunks > 2*maxBlob/etcdkv.MaxValue {
		return blobHeader{}, nil, errors.New("bad number of chunks")
	}
	size, m := binary.Uvarint(packed[1+n:])
	if m <= 0 || size > maxBlob {
		return blobHeader{}, nil, errors.New("bad size")
	}
	return blobHeader{chunks: int(chunks), size: int(size)}, packed[1+n+m:], nil
}

// unpack allocates no more than the header says.
func unpack(h blobHeader, body []byte) ([]byte, error) {
	content := make([]byte, h.size)
	r := flate.NewReader(bytes.NewReader(body))
	if _, err := io.ReadFull(r, content); err != nil {
		return nil, err
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return nil, errors.New("content is longer than its header says")
	}
	return content, nil
}

// GetBlob returns the content of digest d, or NotFound. The content is shared and must not
// be changed. Content that no longer matches its digest is an Internal error.
func (s *ContentStore) GetBlob(ctx context.Context, d Digest) ([]byte, error) {
	if content, ok := s.blobs.get(d); ok {
		return content, nil
	}
	content, err := s.readBlob(ctx, d)
	if err == nil {
		s.blobs.put(d, content, len(content))
	}
	return content, err
}

func (s *ContentStore) readBlob(ctx context.Context, d Digest) ([]byte, error) {
	subject := "blob " + string(d)
	if err := etcdkv.CheckParts(string(d)); err != nil {
		return nil, err
	}
	r, err := s.kv.Get(ctx, blobKey(s.kv, d, 0))
	if err != nil {
		return nil, err
	}
	if len(r.Kvs) == 0 {
		return nil, etcdkv.NotFound(subject)
	}
	h, body, err := unpackHeader(r.Kvs[0].Value)
	if err != nil {
		return nil, etcdkv.Corrupt(subject, err)
	}
	if body, err = s.readChunks(ctx, d, h, body); err != nil {
		return nil, err
	}
	content, err := unpack(h, body)
	if err != nil {
		return nil, etcdkv.Corrupt(subject, err)
	}
	if got := manifest.DigestOf(content); got != d {
		return nil, etcdkv.Corrupt(subject, fmt.Errorf("the content's digest is %s", got))
	}
	return content, nil
}

// readChunks appends chunks 1… to body.
func (s *ContentStore) readChunks(ctx context.Context, d Digest, h blobHeader, body []byte) ([]byte, error) {
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

// PutBundle stores b, if it does not exist yet, and returns its digest. Store the content
// that b refers to before.
func (s *ContentStore) PutBundle(ctx context.Context, b Bundle) (Digest, error) {
	d, text, err := b.Blob()
	if err != nil {
		return "", err
	}
	return d, s.PutBlobs(ctx, map[Digest][]byte{d: text})
}

// Blob returns the bundle as it is stored, with its digest.
func (b Bundle) Blob() (Digest, []byte, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return "", nil, errs.E(errs.Internal, "encode", "bundle", err)
	}
	return manifest.DigestOf(text), text, nil
}

// GetBundle returns the bundle of digest d, or NotFound. It is shared and must not be
// changed.
func (s *ContentStore) GetBundle(ctx context.Context, d Digest) (Bundle, error) {
	if b, ok := s.bundles.get(d); ok {
		return b, nil
	}
	text, err := s.GetBlob(ctx, d)
	if err != nil {
		return Bundle{}, err
	}
	b, err := parseBundle(d, text)
	if err == nil {
		s.bundles.put(d, b, 2*len(text))
	}
	return b, err
}

func parseBundle(d Digest, text []byte) (Bundle, error) {
	var b Bundle
	if err := json.Unmarshal(text, &b); err != nil {
		return Bundle{}, etcdkv.Corrupt("bundle "+string(d), err)
	}
	return b, nil
}
