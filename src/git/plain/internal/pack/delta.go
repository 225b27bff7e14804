package pack

import (
	"bytes"
	"encoding/binary"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"
)

// Manifests that name their cluster differ in a few lines only. In a pack all but the first of them
// are deltas to it: less to compress, to send and to keep. The base of a delta is never a delta, so
// reading one takes two steps at most.

const (
	maxBase   = 1 << 20 // bytes of a base
	maxUnlike = 8       // members of a family that differ too much, before it is given up
	deltaGain = 2       // a delta must be this many times shorter than the file
	maxCopy   = 0xffff  // bytes of one copy
	maxInsert = 0x7f    // bytes of one insertion
)

// families are the files of a pack that are likely alike, by the ends of their paths.
type families map[string]*family

// family is the first of several files that are likely alike: the base of their deltas.
type family struct {
	base   Object
	shared bool
	once   sync.Once
	lines  map[string]int // offset of each line of the base, that of the first of equal ones
	unlike atomic.Int32   // members that differed too much, less those that did not
}

// familiesOf finds the families among the objects of a pack.
func familiesOf(objs []Object) families {
	all := families{}
	for _, o := range objs {
		if o.Path == "" || len(o.Content) == 0 || len(o.Content) > maxBase {
			continue
		}
		if f, known := all[ending(o.Path)]; known {
			f.shared = true
		} else {
			all[ending(o.Path)] = &family{base: o}
		}
	}
	return all
}

// ending returns the last two names of a Path: those of a file and of its app.
func ending(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return path
	}
	return path[strings.LastIndexByte(path[:i], '/')+1:]
}

// delta returns a file as a delta to the base of its family; nil if the file itself is not much
// longer.
func (all families) delta(o Object) (base plumbing.Hash, delta []byte) {
	if o.Path == "" {
		return base, nil
	}
	f := all[ending(o.Path)]
	if f == nil || !f.shared || f.base.ID == o.ID || f.unlike.Load() >= maxUnlike {
		return base, nil
	}
	f.once.Do(f.index)
	if delta = f.encode(o.Content); len(delta)+len(base) > len(o.Content)/deltaGain {
		f.unlike.Add(1)
		return base, nil
	}
	f.unlike.Add(-1)
	return f.base.ID, delta
}

func (f *family) index() {
	f.lines = map[string]int{}
	for at := 0; at < len(f.base.Content); {
		line := lineAt(f.base.Content, at)
		if _, known := f.lines[string(line)]; !known {
			f.lines[string(line)] = at
		}
		at += len(line)
	}
}

// lineAt returns the line from an offset on, with its end.
func lineAt(text []byte, at int) []byte {
	if end := bytes.IndexByte(text[at:], '\n'); end >= 0 {
		return text[at : at+end+1]
	}
	return text[at:]
}

// encode writes a file as copies from the base and insertions, in Git's delta format.
func (f *family) encode(text []byte) []byte {
	out := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(f.base.Content))), uint64(len(text)))
	fresh, next := 0, 0 // the first byte that is not encoded yet; the likely next line of the base
	for at := 0; at < len(text); {
		from, n := f.find(text, at, next)
		if n == 0 {
			at += len(lineAt(text, at))
			next += len(lineAt(f.base.Content, next))
			continue
		}
		out = appendCopy(appendInsert(out, text[fresh:at]), from, n)
		at, next = at+n, from+n
		fresh = at
		if text[at-1] != '\n' { // the rest of the line is different
			at, next = at+len(lineAt(text, at)), next+len(lineAt(f.base.Content, next))
		}
	}
	return appendInsert(out, text[fresh:])
}

// find looks for the line of text at an offset in the base, first where it is likely, and returns
// how many bytes match from there on; 0 if the line is missing.
func (f *family) find(text []byte, at, likely int) (from, n int) {
	line, base := lineAt(text, at), f.base.Content
	from = likely
	if !bytes.HasPrefix(base[from:], line) {
		var known bool
		if from, known = f.lines[string(line)]; !known {
			return 0, 0
		}
	}
	for n = len(line); at+n < len(text) && from+n < len(base) && text[at+n] == base[from+n]; {
		n++
	}
	return from, n
}

// appendCopy appends copies of bytes of the base.
func appendCopy(out []byte, from, n int) []byte {
	for n > 0 {
		size := min(n, maxCopy)
		at := len(out)
		out = append(out, 0x80)
		for bit, b := range []byte{byte(from), byte(from >> 8), byte(from >> 16), byte(from >> 24), byte(size), byte(size >> 8)} {
			if b != 0 {
				out[at] |= 1 << bit
				out = append(out, b)
			}
		}
		from, n = from+size, n-size
	}
	return out
}

// appendInsert appends insertions of bytes.
func appendInsert(out, text []byte) []byte {
	for len(text) > 0 {
		n := min(len(text), maxInsert)
		out = append(append(out, byte(n)), text[:n]...)
		text = text[n:]
	}
	return out
}
