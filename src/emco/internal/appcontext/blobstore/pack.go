package blobstore

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"io"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// A blob is stored as: format (1 byte), number of chunks and size of the content as
// varints, then the compressed content, in chunks of at most etcdkv.MaxValue. Chunk 0 is
// written last, so content exists when chunk 0 does.
const flateFormat = 1

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
