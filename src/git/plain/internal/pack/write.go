package pack

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"io"
	"runtime"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/klauspost/compress/zlib"
)

// How a pack is written: objects are compressed in runs, several at once, and
// written in order.
const (
	runObjects = 256
	runBytes   = 1 << 20
	level      = zlib.BestSpeed
)

// Write writes a pack of objects in the given order, files as deltas to their likes where
// that is much shorter. What it holds at a time is bounded by the runs in flight, not by the
// pack.
func Write(w io.Writer, objs []Object) error {
	sum := sha1.New()
	w = io.MultiWriter(w, sum)
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(objs)))
	if _, err := w.Write(head); err != nil {
		return err
	}
	if err := writeRuns(w, split(objs), familiesOf(objs)); err != nil {
		return err
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

// split cuts objects into runs.
func split(objs []Object) [][]Object {
	var runs [][]Object
	start, size := 0, 0
	for i, o := range objs {
		size += len(o.Content)
		if i+1-start >= runObjects || size >= runBytes {
			runs = append(runs, objs[start:i+1])
			start, size = i+1, 0
		}
	}
	if start < len(objs) {
		runs = append(runs, objs[start:])
	}
	return runs
}

// writeRuns compresses ahead by as many runs as there are processors.
func writeRuns(w io.Writer, runs [][]Object, all families) error {
	ahead := runtime.GOMAXPROCS(0)
	done := make([]chan *bytes.Buffer, len(runs))
	for i := range done {
		done[i] = make(chan *bytes.Buffer, 1)
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	start := func(i int) {
		if i < len(runs) {
			workers.Go(func() { done[i] <- compress(runs[i], all) })
		}
	}
	for i := range ahead {
		start(i)
	}
	for i := range runs {
		buf := <-done[i]
		start(i + ahead)
		if _, err := w.Write(buf.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func compress(objs []Object, all families) *bytes.Buffer {
	buf := &bytes.Buffer{}
	z, err := zlib.NewWriterLevel(buf, level)
	if err != nil {
		panic(err) // the level is a constant
	}
	for _, o := range objs {
		text := o.Content
		if base, delta := all.delta(o); delta != nil {
			text = delta
			buf.Write(objectHeader(plumbing.REFDeltaObject, len(delta)))
			buf.Write(base[:])
		} else {
			buf.Write(objectHeader(o.Kind, len(o.Content)))
		}
		z.Reset(buf)
		_, _ = z.Write(text) // a buffer takes all
		_ = z.Close()
	}
	return buf
}

// objectHeader packs type and size: 4 bits of size in the first byte, 7 in each other.
func objectHeader(kind plumbing.ObjectType, size int) []byte {
	c := byte(kind)<<4 | byte(size&15)
	var head []byte
	for size >>= 4; size > 0; size >>= 7 {
		head = append(head, c|0x80)
		c = byte(size & 0x7f)
	}
	return append(head, c)
}
