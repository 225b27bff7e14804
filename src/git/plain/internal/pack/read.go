package pack

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
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// maxObjects bounds the objects of one received pack.
const maxObjects = 20 << 20

// perObject is what an object costs in memory besides its bytes: key, header, map slot.
const perObject = 96

// Reader takes a pack apart as it streams by. Every object that is kept is
// given to Keep once, whole and with its hash; deltas are resolved against objects
// of the pack, in any order, and against Base, which a thin pack needs.
type Reader struct {
	Base      func(plumbing.Hash) (Object, bool) // of thin packs; may be nil
	Keep      func(Object)
	WantBlobs bool  // keep blobs too; else they are inflated and dropped
	MaxObject int64 // bytes of one object
	MaxBytes  int64 // bytes of all objects that are held

	in      *input
	inflate io.ReadCloser
	held    map[plumbing.Hash]Object
	pending map[plumbing.Hash][][]byte // deltas by the base that did not come yet
	left    int64                      // of MaxBytes
}

// Read parses a whole pack and checks its checksum. It returns how many deltas lack their base;
// with blobs dropped these are deltas of blobs.
func (p *Reader) Read(r io.Reader) (unresolved int, err error) {
	p.left = p.MaxBytes
	p.in = &input{r: bufio.NewReaderSize(r, 32<<10), sum: sha1.New()}
	p.held = map[plumbing.Hash]Object{}
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

func (p *Reader) header() (uint32, error) {
	var head [12]byte
	if _, err := io.ReadFull(p.in, head[:]); err != nil {
		return 0, err
	}
	version, n := binary.BigEndian.Uint32(head[4:8]), binary.BigEndian.Uint32(head[8:])
	if string(head[:4]) != "PACK" || version != 2 && version != 3 {
		return 0, transport.Malformed("a pack")
	}
	if n > maxObjects {
		return 0, errs.E(errs.TooLarge, "receive", "", fmt.Errorf("a pack of %d objects", n))
	}
	return n, nil
}

// object reads one object: a type and a size in a variable number of bytes, the
// name of the base if it is a delta, and zlib data.
func (p *Reader) object() error {
	kind, size, err := p.in.typeAndSize()
	if err != nil {
		return err
	}
	if size > p.MaxObject {
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
		return transport.Malformed("a pack")
	}
	drop := kind == plumbing.BlobObject && !p.WantBlobs || kind == plumbing.TagObject
	content, err := p.content(size, drop)
	if err != nil || drop {
		return err
	}
	if kind == plumbing.REFDeltaObject {
		return p.delta(base, content)
	}
	return p.found(NewObject(kind, content))
}

// content inflates one object, which must have exactly its announced size.
func (p *Reader) content(size int64, drop bool) ([]byte, error) {
	if !drop {
		if p.left -= size + perObject; p.left < 0 {
			return nil, errs.E(errs.TooLarge, "receive", "", errors.New("more than the limit of one fetch when unpacked"))
		}
	}
	if err := p.reset(); err != nil {
		return nil, transport.Malformed("a pack")
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
		return nil, transport.Malformed("a pack")
	}
	return buf.Bytes(), nil
}

func (p *Reader) reset() error {
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
		return transport.Malformed("a pack")
	}
	return err
}

// found keeps an object and resolves the deltas that waited for it, in a loop
// since chains may be long.
func (p *Reader) found(o Object) error {
	ready := []Object{o}
	for len(ready) > 0 {
		o, ready = ready[len(ready)-1], ready[:len(ready)-1]
		if _, ok := p.held[o.ID]; ok {
			continue
		}
		p.held[o.ID] = o
		p.Keep(o)
		waiting := p.pending[o.ID]
		delete(p.pending, o.ID)
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

func (p *Reader) delta(base plumbing.Hash, d []byte) error {
	o, ok := p.held[base]
	if !ok && p.Base != nil {
		o, ok = p.Base(base)
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
func (p *Reader) patch(base Object, d []byte) (Object, error) {
	_, n := binary.Uvarint(d)
	if n <= 0 {
		return Object{}, transport.Malformed("a delta")
	}
	size, m := binary.Uvarint(d[n:])
	if m <= 0 || size > uint64(p.MaxObject) {
		return Object{}, transport.Malformed("a delta")
	}
	if p.left -= int64(size) + perObject; p.left < 0 {
		return Object{}, errs.E(errs.TooLarge, "receive", "", errors.New("more than the limit of one fetch when unpacked"))
	}
	content, err := packfile.PatchDelta(base.Content, d)
	if err != nil {
		return Object{}, transport.Malformed("a delta")
	}
	return NewObject(base.Kind, content), nil
}

// input reads bytes and sums them up, so that zlib takes no byte too many.
type input struct {
	r   *bufio.Reader
	sum hash.Hash
	buf [512]byte
	n   int
}

// Read implements io.Reader.
func (p *input) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.flush()
	p.sum.Write(b[:n])
	return n, err
}

// ReadByte implements io.ByteReader.
func (p *input) ReadByte() (byte, error) {
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

func (p *input) flush() {
	p.sum.Write(p.buf[:p.n])
	p.n = 0
}

func (p *input) typeAndSize() (plumbing.ObjectType, int64, error) {
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
			return 0, 0, transport.Malformed("a pack")
		}
		size |= int64(c&0x7f) << shift
	}
	return kind, size, nil
}

// checksum compares the sum of all bytes with the 20 that follow.
func (p *input) checksum() error {
	p.flush()
	want := p.sum.Sum(nil)
	var got [20]byte
	if _, err := io.ReadFull(p.r, got[:]); err != nil {
		return err
	}
	if !bytes.Equal(got[:], want) {
		return transport.Malformed("the checksum of a pack")
	}
	return nil
}
