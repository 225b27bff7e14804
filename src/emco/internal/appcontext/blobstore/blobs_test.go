package blobstore

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

func TestBlobsOfAllSizesComeBack(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	blobs := map[Digest][]byte{}
	for i, n := range []int{0, 1, 4 << 10, etcdkv.MaxValue - 30, etcdkv.MaxValue, etcdkv.MaxValue + 1, 1400 << 10, 1600 << 10, 5 << 20} {
		c := etcdtest.Noise(n, uint64(i))
		blobs[manifest.DigestOf(c)] = c
	}
	text := []byte(strings.Repeat("kind: ConfigMap\n", maxBlob/16))
	blobs[manifest.DigestOf(text)] = text
	etcdtest.Must(t, s.PutBlobs(ctx, blobs))
	etcdtest.Must(t, s.PutBlobs(ctx, blobs))
	for _, from := range []*Store{s, uncached(s)} {
		for d, want := range blobs {
			got, err := from.GetBlob(ctx, d)
			etcdtest.Must(t, err)
			if !bytes.Equal(got, want) {
				t.Errorf("a blob of %d bytes came back with %d others", len(want), len(got))
			}
		}
	}
	for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key()}) {
		etcdtest.Must(t, err)
		if len(kv.Value) > etcdkv.MaxValue {
			t.Errorf("%s has %d bytes", kv.Key, len(kv.Value))
		}
	}
	_, err := s.GetBlob(ctx, manifest.DigestOf([]byte("never written")))
	etcdtest.WantKind(t, err, errs.NotFound)
}

// The header must hold the exact number of chunks that are written.
func TestChunksAreCounted(t *testing.T) {
	t.Parallel()
	p, exact := packer{compressor: newCompressor()}, false
	content := etcdtest.Noise(etcdkv.MaxValue, 9)
	for n := etcdkv.MaxValue - 120; n < etcdkv.MaxValue; n++ {
		packed, err := p.pack("", content[:n])
		etcdtest.Must(t, err)
		h, _, err := unpackHeader(packed)
		etcdtest.Must(t, err)
		if want := (len(packed) + etcdkv.MaxValue - 1) / etcdkv.MaxValue; h.chunks != want {
			t.Fatalf("%d bytes: the header says %d chunks, want %d", len(packed), h.chunks, want)
		}
		exact = exact || len(packed) == etcdkv.MaxValue
	}
	if !exact {
		t.Error("no content filled a chunk to the last byte")
	}
}

// A compressor is larger than most contents, so calls share one.
func TestContentsShareACompressor(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	put := func(i int) {
		text := fmt.Appendf(nil, "kind: ConfigMap\nnumber: %d\n", i)
		etcdtest.Must(t, s.PutBlobs(ctx, map[Digest][]byte{manifest.DigestOf(text): text}))
	}
	put(0)
	least := uint64(math.MaxUint64)
	for i := range 20 { // other goroutines allocate too, and a collection may take the compressor
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		put(1 + i)
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > 400<<10 {
		t.Errorf("to store a small content allocates %d bytes", least)
	}
}

func TestPutBlobsRefuses(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	etcdtest.WantKind(t, s.PutBlobs(ctx, map[Digest][]byte{"abc": []byte("x")}), errs.Invalid)
	big := make([]byte, maxBlob+1)
	etcdtest.WantKind(t, s.PutBlobs(ctx, map[Digest][]byte{manifest.DigestOf(big): big}), errs.TooLarge)
	if keys := etcdtest.KeysBelow(t, s.kv, ""); len(keys) != 0 {
		t.Errorf("keys %q were written", keys)
	}
}

func TestPutBlobsWritesOnlyWhatIsAbsent(t *testing.T) {
	t.Parallel()
	var bytes, txns atomic.Int64
	s := storeAt(etcdtest.Prefix(t), func(kind string, n int) {
		bytes.Add(int64(n))
		if kind == "txn" || kind == "get" { // to write, and to look what is there
			txns.Add(1)
		}
	})
	blobs := map[Digest][]byte{}
	for i := range 300 {
		c := etcdtest.Noise(8<<10, uint64(i))
		blobs[manifest.DigestOf(c)] = c
	}
	etcdtest.Must(t, s.PutBlobs(t.Context(), blobs))
	first := bytes.Swap(0)
	if n := txns.Swap(0); n < 3+3 || n > 3+4 {
		t.Errorf("%d transactions, want 3 to look and 3 or 4 to write", n)
	}
	etcdtest.Must(t, s.PutBlobs(t.Context(), blobs))
	if again := bytes.Load(); first < 300*8<<10 || again > first/20 {
		t.Errorf("%d bytes the first time and %d the second, want next to nothing again", first, again)
	}
	if n := txns.Load(); n != 3 {
		t.Errorf("%d transactions the second time, want 3", n)
	}
}

// A blob that is written only in part is not there, and can be written again.
func TestBlobWrittenInPartIsNotThere(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	txns := 0
	dying := storeAt(s.kv.Key(), func(kind string, _ int) {
		if txns++; txns == 2 { // one to look, one that wrote
			cancel()
		}
	})
	original := etcdtest.Noise(3<<20, 5)
	blobs := map[Digest][]byte{manifest.DigestOf(original): original}
	etcdtest.WantKind(t, dying.PutBlobs(ctx, blobs), errs.Unavailable)
	if keys := etcdtest.KeysBelow(t, s.kv, "blob/"); len(keys) == 0 || len(keys) > 12 {
		t.Fatalf("%d of 13 chunks were written, want some", len(keys))
	}
	for d := range blobs {
		_, err := s.GetBlob(t.Context(), d)
		etcdtest.WantKind(t, err, errs.NotFound)
		etcdtest.Must(t, s.PutBlobs(t.Context(), blobs))
		got, err := uncached(s).GetBlob(t.Context(), d)
		if etcdtest.Must(t, err); !bytes.Equal(got, original) {
			t.Error("the blob came back with another content")
		}
	}
}

func TestCorruptBlobsAreFoundOut(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	original := etcdtest.Noise(etcdkv.MaxValue*2+5, 3)
	d := manifest.DigestOf(original)
	etcdtest.Must(t, s.PutBlobs(ctx, map[Digest][]byte{d: original}))
	first, err := s.kv.Get(ctx, blobKey(s.kv, d, 0))
	etcdtest.Must(t, err)
	value := first.Kvs[0].Value
	other, err := packer{compressor: newCompressor()}.pack("", []byte("other content"))
	etcdtest.Must(t, err)
	long := slices.Clone(other)
	long[2]-- // the size

	tests := []struct {
		name  string
		chunk int
		value []byte // nil: the chunk is missing
	}{
		{"a flipped bit in the first chunk", 0, flip(value, len(value)/2)},
		{"a missing last chunk", 2, nil},
		{"an empty chunk", 1, []byte{}},
		{"an unknown format", 0, flip(value, 0)},
		{"no header", 0, []byte{flateFormat}},
		{"a header without a size", 0, []byte{flateFormat, 1}},
		{"a size above the limit", 0, []byte{flateFormat, 1, 0xff, 0xff, 0xff, 0xff, 0x7f}},
		{"other content", 0, other},
		{"content longer than its header says", 0, long},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			broken := storeAt(fmt.Sprint(s.kv.Key(), i), nil)
			etcdtest.Must(t, broken.PutBlobs(ctx, map[Digest][]byte{d: original}))
			key := blobKey(broken.kv, d, test.chunk)
			if test.value == nil {
				_, err = etcd.Delete(ctx, key)
			} else {
				_, err = etcd.Put(ctx, key, string(test.value))
			}
			etcdtest.Must(t, err)
			_, err := uncached(broken).GetBlob(ctx, d)
			etcdtest.WantKind(t, err, errs.Internal)
			if !strings.Contains(err.Error(), string(d)) {
				t.Errorf("the error %q does not name the digest", err)
			}
		})
	}
}

func flip(value []byte, at int) []byte {
	value = slices.Clone(value)
	value[at] ^= 0x40
	return value
}

func TestBundlesComeBack(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	b := Bundle{Objects: []Ref{{Digest: "1"}, {Digest: "2"}}, Hooks: []HookRef{{Ref: Ref{Digest: "3"}, Events: []string{"pre-install"}, Weight: -5}}}
	b.Objects[0].ID = manifest.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "n", Name: "d"}
	d, err := s.PutBundle(ctx, b)
	etcdtest.Must(t, err)
	again, err := s.PutBundle(ctx, b)
	etcdtest.Must(t, err)
	if d != again {
		t.Errorf("the same bundle has digests %s and %s", d, again)
	}
	for _, from := range []*Store{uncached(s), s, s} {
		got, err := from.GetBundle(ctx, d)
		etcdtest.Must(t, err)
		if len(got.Objects) != 2 || got.Objects[0] != b.Objects[0] || got.Hooks[0].Weight != -5 || got.Hooks[0].Events[0] != "pre-install" {
			t.Errorf("GetBundle = %+v, want %+v", got, b)
		}
	}
	blobs := map[Digest][]byte{manifest.DigestOf([]byte("this is no bundle")): []byte("this is no bundle")}
	etcdtest.Must(t, s.PutBlobs(ctx, blobs))
	for d := range blobs {
		_, err := s.GetBundle(ctx, d)
		etcdtest.WantKind(t, err, errs.Internal)
	}
}

// Nothing that is stored can make reading panic or take more memory than is allowed.
func FuzzUnpack(f *testing.F) {
	for _, text := range []string{"", "x", strings.Repeat("abc", 1000)} {
		packed, err := packer{compressor: newCompressor()}.pack("", []byte(text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		h, body, err := unpackHeader(packed)
		if err != nil {
			return
		}
		content, err := unpack(h, body)
		if err == nil && (len(content) != h.size || h.size > maxBlob) {
			t.Errorf("%d bytes came out of a header of %d", len(content), h.size)
		}
	})
}
