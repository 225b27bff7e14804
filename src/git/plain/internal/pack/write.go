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

// writeRuns compresses ahead by twice as many runs as there are processors, so that a slow reader
// of w stops no compressor that has room.
func writeRuns(w io.Writer, runs [][]Object, all families) error {
	workers := min(runtime.GOMAXPROCS(0), len(runs))
	ahead := min(2*workers, len(runs))
	next, slots := make(chan int, ahead), make([]compressedRun, ahead)
	for i := range slots {
		slots[i].done = make(chan struct{}, 1)
	}
	var ended sync.WaitGroup
	defer ended.Wait()
	defer close(next)
	for range workers {
		ended.Go(func() {
			c := newCompressor(all)
			for i := range next {
				slot := &slots[i%ahead]
				c.run(&slot.buf, runs[i])
				slot.done <- struct{}{}
			}
		})
	}
	for i := range ahead {
		next <- i
	}
	for i := range runs {
		slot := &slots[i%ahead]
		<-slot.done
		if _, err := w.Write(slot.buf.Bytes()); err != nil {
			return err
		}
		if i+ahead < len(runs) {
			next <- i + ahead
		}
	}
	return nil
}

// compressedRun is the buffer of one run at a time: a worker's until it is done, then the writer's.
type compressedRun struct {
	buf  bytes.Buffer
	done chan struct{}
}

// compressor compresses objects, one run after the other.
type compressor struct {
	families families
	zlib     *zlib.Writer
}

func newCompressor(all families) *compressor {
	z, err := zlib.NewWriterLevel(io.Discard, level)
	if err != nil {
		panic(err) // the level is a constant
	}
	return &compressor{families: all, zlib: z}
}

// run replaces the content of a buffer by the objects of a run.
func (c *compressor) run(buf *bytes.Buffer, objs []Object) {
	buf.Reset()
	for _, o := range objs {
		text := o.Content
		if base, delta := c.families.delta(o); delta != nil {
			text = delta
			buf.Write(objectHeader(plumbing.REFDeltaObject, len(delta)))
			buf.Write(base[:])
		} else {
			buf.Write(objectHeader(o.Kind, len(o.Content)))
		}
		c.zlib.Reset(buf)
		_, _ = c.zlib.Write(text) // a buffer takes all
		_ = c.zlib.Close()
	}
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
