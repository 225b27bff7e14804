package plain

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// maxObjects bounds the objects of one received pack.
const maxObjects = 20 << 20

// packReader takes a pack apart as it streams by. Every object that is kept is
// given to keep once, whole and with its hash; deltas are resolved against objects
// of the pack, in any order, and against base, which a thin pack needs.
type packReader struct {
	base      func(plumbing.Hash) (gitObject, bool) // of thin packs; may be nil
	keep      func(gitObject)
	wantBlobs bool  // keep blobs too; else they are inflated and dropped
	maxObject int64 // bytes of one object
	budget    int64 // bytes of all objects that are held

	in      *packInput
	inflate io.ReadCloser
	held    map[plumbing.Hash]gitObject
	pending map[plumbing.Hash][][]byte // deltas by the base that did not come yet
}

// read parses a whole pack and checks its checksum. It returns how many deltas lack their base;
// with blobs dropped these are deltas of blobs.
func (p *packReader) read(r io.Reader) (unresolved int, err error) {
	p.in = &packInput{r: bufio.NewReaderSize(r, 32<<10), sum: sha1.New()}
	p.held = map[plumbing.Hash]gitObject{}
	p.pending = map[plumbing.Hash][][]byte{}
	n, err := p.header()
	if err != nil {
		return 0, err
	}
	for range n {
		if err := p.object(); err != nil {
			return 0, err
		}
	}
	if err := p.in.checksum(); err != nil {
		return 0, err
	}
	for _, waiting := range p.pending {
		unresolved += len(waiting)
	}
	return unresolved, nil
}

func (p *packReader) header() (uint32, error) {
	var head [12]byte
	if _, err := io.ReadFull(p.in, head[:]); err != nil {
		return 0, err
	}
	version, n := binary.BigEndian.Uint32(head[4:8]), binary.BigEndian.Uint32(head[8:])
	if string(head[:4]) != "PACK" || version != 2 && version != 3 {
		return 0, malformed("a pack")
	}
	if n > maxObjects {
		return 0, errs.E(errs.TooLarge, "receive", "", fmt.Errorf("a pack of %d objects", n))
	}
	return n, nil
}

// object reads one object: a type and a size in a variable number of bytes, the
// name of the base if it is a delta, and zlib data.
func (p *packReader) object() error {
	kind, size, err := p.in.typeAndSize()
	if err != nil {
		return err
	}
	if size > p.maxObject {
		return errs.E(errs.TooLarge, "receive", "", fmt.Errorf("an object of %d bytes", size))
	}
	var base plumbing.Hash
	switch kind {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
	case plumbing.REFDeltaObject:
		if _, err := io.ReadFull(p.in, base[:]); err != nil {
			return err
		}
	default: // offset deltas were not asked for
		return malformed("a pack")
	}
	drop := kind == plumbing.BlobObject && !p.wantBlobs || kind == plumbing.TagObject
	content, err := p.content(size, drop)
	if err != nil || drop {
		return err
	}
	if kind == plumbing.REFDeltaObject {
		return p.delta(base, content)
	}
	return p.found(newObject(kind, content))
}

// content inflates one object, which must have exactly its announced size.
func (p *packReader) content(size int64, drop bool) ([]byte, error) {
	if !drop {
		if p.budget -= size + perTree; p.budget < 0 {
			return nil, errs.E(errs.TooLarge, "receive", "", errors.New("more than the limit of one fetch when unpacked"))
		}
	}
	if err := p.reset(); err != nil {
		return nil, malformed("a pack")
	}
	var buf bytes.Buffer
	var to io.Writer = io.Discard
	if !drop {
		buf.Grow(int(min(size, 1<<20)) + bytes.MinRead) // grows with the data, not with the claim
		to = &buf
	}
	n, err := io.Copy(to, io.LimitReader(p.inflate, size+1))
	if err != nil {
		return nil, inflateError(err)
	}
	if n != size {
		return nil, malformed("a pack")
	}
	return buf.Bytes(), nil
}

func (p *packReader) reset() error {
	if p.inflate == nil {
		z, err := zlib.NewReader(p.in)
		p.inflate = z
		return err
	}
	return p.inflate.(zlib.Resetter).Reset(p.in, nil)
}

// inflateError distinguishes broken data from a broken connection.
func inflateError(err error) error {
	if errors.Is(err, zlib.ErrChecksum) || errors.Is(err, zlib.ErrHeader) {
		return malformed("a pack")
	}
	return err
}

// found keeps an object and resolves the deltas that waited for it, in a loop
// since chains may be long.
func (p *packReader) found(o gitObject) error {
	ready := []gitObject{o}
	for len(ready) > 0 {
		o, ready = ready[len(ready)-1], ready[:len(ready)-1]
		if _, ok := p.held[o.id]; ok {
			continue
		}
		p.held[o.id] = o
		p.keep(o)
		waiting := p.pending[o.id]
		delete(p.pending, o.id)
		for _, d := range waiting {
			next, err := p.patch(o, d)
			if err != nil {
				return err
			}
			ready = append(ready, next)
		}
	}
	return nil
}

func (p *packReader) delta(base plumbing.Hash, d []byte) error {
	o, ok := p.held[base]
	if !ok && p.base != nil {
		o, ok = p.base(base)
	}
	if !ok {
		p.pending[base] = append(p.pending[base], d)
		return nil
	}
	next, err := p.patch(o, d)
	if err != nil {
		return err
	}
	return p.found(next)
}

// patch applies a delta after checking the size of its result.
func (p *packReader) patch(base gitObject, d []byte) (gitObject, error) {
	_, n := binary.Uvarint(d)
	if n <= 0 {
		return gitObject{}, malformed("a delta")
	}
	size, m := binary.Uvarint(d[n:])
	if m <= 0 || size > uint64(p.maxObject) {
		return gitObject{}, malformed("a delta")
	}
	if p.budget -= int64(size) + perTree; p.budget < 0 {
		return gitObject{}, errs.E(errs.TooLarge, "receive", "", errors.New("more than the limit of one fetch when unpacked"))
	}
	content, err := packfile.PatchDelta(base.content, d)
	if err != nil {
		return gitObject{}, malformed("a delta")
	}
	return newObject(base.kind, content), nil
}

// packInput reads bytes and sums them up, so that zlib takes no byte too many.
type packInput struct {
	r   *bufio.Reader
	sum hash.Hash
	buf [512]byte
	n   int
}

// Read implements io.Reader.
func (p *packInput) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.flush()
	p.sum.Write(b[:n])
	return n, err
}

// ReadByte implements io.ByteReader.
func (p *packInput) ReadByte() (byte, error) {
	c, err := p.r.ReadByte()
	if err != nil {
		return 0, err
	}
	if p.n == len(p.buf) {
		p.flush()
	}
	p.buf[p.n] = c
	p.n++
	return c, nil
}

func (p *packInput) flush() {
	p.sum.Write(p.buf[:p.n])
	p.n = 0
}

func (p *packInput) typeAndSize() (plumbing.ObjectType, int64, error) {
	c, err := p.ReadByte()
	if err != nil {
		return 0, 0, err
	}
	kind, size := plumbing.ObjectType(c>>4&7), int64(c&15)
	for shift := 4; c&0x80 != 0; shift += 7 {
		if c, err = p.ReadByte(); err != nil {
			return 0, 0, err
		}
		if shift > 46 {
			return 0, 0, malformed("a pack")
		}
		size |= int64(c&0x7f) << shift
	}
	return kind, size, nil
}

// checksum compares the sum of all bytes with the 20 that follow.
func (p *packInput) checksum() error {
	p.flush()
	want := p.sum.Sum(nil)
	var got [20]byte
	if _, err := io.ReadFull(p.r, got[:]); err != nil {
		return err
	}
	if !bytes.Equal(got[:], want) {
		return malformed("the checksum of a pack")
	}
	return nil
}
