package blobstore

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"io"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// A blob is stored as: format (1 byte), number of chunks and size of the content as
// varints, then the compressed content, which the later format seals, in chunks of at most etcdkv.MaxValue.
// Chunk 0 is written last, so content exists when chunk 0 does.
const (
	flateFormat  = 1
	sealedFormat = 2
)

// maxKeptBody is the largest buffer of a compressor that is used again.
const maxKeptBody = 1 << 20

// packer compresses one content after another with one compressor.
type packer struct {
	*compressor
	sealer *seal.Sealer // nil: content is not sealed
}

// compressor is used again and again: it has 800 KiB, most contents have less than one.
type compressor struct {
	w    *flate.Writer
	body bytes.Buffer
}

func newCompressor() *compressor {
	w, err := flate.NewWriter(io.Discard, flate.DefaultCompression)
	if err != nil {
		panic(err) // the level is a constant
	}
	return &compressor{w: w}
}

// packer returns a packer with a compressor of its own until release.
func (s *Store) packer() (p packer, release func()) {
	c, ok := s.cache.compressors.Get().(*compressor)
	if !ok {
		c = newCompressor()
	}
	return packer{c, s.sealer}, func() {
		if c.body.Cap() <= maxKeptBody {
			s.cache.compressors.Put(c)
		}
	}
}

// place binds sealed content to its digest.
func place(d Digest) []string { return []string{"blob", string(d)} }

// pack returns the header and the compressed content of digest d.
func (p packer) pack(d Digest, content []byte) ([]byte, error) {
	p.body.Reset()
	p.w.Reset(&p.body)
	if _, err := p.w.Write(content); err != nil {
		return nil, err
	}
	if err := p.w.Close(); err != nil {
		return nil, err
	}
	format, body := byte(flateFormat), p.body.Bytes()
	if p.sealer != nil {
		format, body = sealedFormat, p.sealer.Seal(body, place(d)...)
	}
	for chunks := uint64(1); ; chunks++ {
		head := binary.AppendUvarint([]byte{format}, chunks)
		head = binary.AppendUvarint(head, uint64(len(content)))
		if len(head)+len(body) <= int(chunks)*etcdkv.MaxValue {
			return append(head, body...), nil
		}
	}
}

type blobHeader struct {
	sealed bool
	chunks int
	size   int
}

// unpackHeader reads the header and returns what follows it.
func unpackHeader(packed []byte) (blobHeader, []byte, error) {
	if len(packed) == 0 || packed[0] != flateFormat && packed[0] != sealedFormat {
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
	return blobHeader{sealed: packed[0] == sealedFormat, chunks: int(chunks), size: int(size)}, packed[1+n+m:], nil
}

// unpack allocates no more than the size in the header.
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
