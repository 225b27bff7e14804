package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// Write is the desired document, as a whole: what a replacement leaves out is removed,
// secret and blobs included.
type Write struct {
	Key    Key
	Parent Key    // empty for a root; otherwise Key is below it. A replacement cannot change it
	UID    string // for Replace: the document must have this UID, so that one created again is not replaced; empty for any
	Refs   []Ref
	Body   []byte      // JSON as clients may see it
	Secret seal.Secret // JSON or any other content, in clear; nil for none
	Blobs  []Blob      // their content was stored less than the sweeper's grace ago, or the stored document names it already
}

// Ref is a reference to another document, which then cannot be deleted. Upstream EMCO tolerates
// most references to documents that do not exist yet.
type Ref struct {
	Key   Key
	Must  bool // the target must exist
	Index bool // no document has this key: the reference only finds its holder
}

// Needs returns references to documents that must exist.
func Needs(keys ...Key) (refs []Ref) {
	for _, k := range keys {
		refs = append(refs, Ref{Key: k, Must: true})
	}
	return refs
}

const (
	maxKey   = 1 << 10 // bytes of a key
	maxBytes = 8 << 20 // bytes of body and secret together; half of what MongoDB takes
)

// check returns Invalid or TooLarge if w can never be stored.
func (w Write) check(op string) error {
	if !w.Key.valid() {
		return invalid(op, "", "the key "+strconv.Quote(string(w.Key))+" is not a path of names")
	}
	if w.Parent != "" && (!w.Parent.valid() || !strings.HasPrefix(string(w.Key), string(w.Parent)+"/")) {
		return invalid(op, w.Key, "is not below its parent "+strconv.Quote(string(w.Parent)))
	}
	for _, r := range w.Refs {
		if !r.Key.valid() || r.Key == w.Key {
			return invalid(op, w.Key, "cannot refer to "+strconv.Quote(string(r.Key)))
		}
	}
	if len(w.Body)+len(w.Secret) > maxBytes {
		return errs.E(errs.TooLarge, op, string(w.Key), errors.New("is larger than 8 MiB"))
	}
	return nil
}

// valid reports whether k is names joined by slashes.
func (k Key) valid() bool {
	if len(k) > maxKey || !utf8.ValidString(string(k)) || strings.ContainsRune(string(k), 0) {
		return false
	}
	for name := range strings.SplitSeq(string(k), "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	return true
}

// refs returns the keys of w's references, sorted and each once.
func (w Write) refs() []Key {
	var keys []Key
	for _, r := range w.Refs {
		keys = append(keys, r.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// fill copies the fields of w to d.
func (db *DB) fill(d Doc, w Write) Doc {
	d.Refs, d.Claims = w.refs(), nil
	d.Body, d.Blobs = w.Body, w.Blobs
	d.Updated = db.now()
	d.Secret = nil
	if w.Secret != nil {
		d.Secret = db.sealer.Seal(w.Secret, string(d.Key), d.UID)
	}
	return d
}

// random63 returns an unpredictable positive number.
func random63() int64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails: the process ends if there is no randomness
		if n := int64(binary.BigEndian.Uint64(b[:]) >> 1); n > 0 {
			return n
		}
	}
}

// detached returns a context for steps that must not stop half-way when the client
// disconnects.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), finishWithin)
}

// again runs f until it returns anything but errLost. op and k are for the error when it
// lost too often or ctx ended.
func again(ctx context.Context, op string, k Key, f func() (Doc, error)) (Doc, error) {
	for try := range maxTries {
		if try > 0 {
			if err := pause.For(ctx, mathrand.N(time.Millisecond<<min(try, 7))); err != nil {
				return Doc{}, errs.E(errs.Unavailable, op, string(k), err)
			}
		}
		if d, err := f(); !errors.Is(err, errLost) {
			return d, err
		}
	}
	return Doc{}, conflict(op, k, errBusy)
}
