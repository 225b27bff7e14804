package blobstore

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

func blobsOf(contents ...[]byte) map[Digest][]byte {
	out := map[Digest][]byte{}
	for _, c := range contents {
		out[manifest.DigestOf(c)] = c
	}
	return out
}

// Rendered values are not readable in etcd, and content of one digest does not open under another.
func TestF70ContentIsSealedInEtcd(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	text := []byte("kind: Secret\nstringData: {password: planted-password}\n")
	noise := etcdtest.Noise(3<<10, 70) // compression would hide text, not noise
	blobs := blobsOf(text, noise)
	etcdtest.Must(t, s.PutBlobs(ctx, blobs))
	var stored [][]byte
	for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key()}) {
		etcdtest.Must(t, err)
		if bytes.Contains(kv.Value, noise[:64]) || bytes.Contains(kv.Value, []byte("planted")) {
			t.Errorf("%s can be read", kv.Key)
		}
		stored = append(stored, kv.Value)
	}
	if len(stored) != 2 {
		t.Fatalf("%d keys were written, want 2", len(stored))
	}
	d := manifest.DigestOf(text)
	for _, value := range stored {
		_, err := etcd.Put(ctx, blobKey(s.kv, d, 0), string(value))
		etcdtest.Must(t, err)
		got, err := uncached(s).GetBlob(ctx, d)
		if err == nil && !bytes.Equal(got, text) {
			t.Error("content opens under a digest that is not its own")
		}
	}
	_, err := New(s.kv, NewCache(1<<20), seal.New(seal.NewKey())).GetBlob(ctx, d)
	etcdtest.WantKind(t, err, errs.Unavailable)
}

// Content that an older version stored in clear, or that a former key sealed, is sealed with the key in use;
// readers find it at every moment, and an interrupted run goes on.
func TestContentIsResealedWhileItIsRead(t *testing.T) {
	t.Parallel()
	ctx, prefix := t.Context(), etcdtest.Prefix(t)
	kv := storeAt(prefix, nil).kv
	former, next := seal.NewKey(), seal.NewKey()
	clear, ring := New(kv, NewCache(1), nil), seal.New(former)
	s := New(kv, NewCache(1), ring)
	first := blobsOf([]byte("plain"), etcdtest.Noise(3*etcdkv.MaxValue/2, 1))
	second := blobsOf([]byte("of the former key"), etcdtest.Noise(3*etcdkv.MaxValue/2, 2), etcdtest.Noise(3<<20, 3))
	etcdtest.Must(t, clear.PutBlobs(ctx, first))
	etcdtest.Must(t, s.PutBlobs(ctx, second))
	ring.Use(next, former)

	reading, stop := context.WithCancel(ctx)
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for reading.Err() == nil {
				for _, blobs := range []map[Digest][]byte{first, second} {
					for d, want := range blobs {
						if got, err := s.readBlob(ctx, d); err != nil || !bytes.Equal(got, want) {
							t.Errorf("a reader got %d bytes, %v", len(got), err)
						}
					}
				}
			}
		})
	}
	interrupted, cancel := context.WithCancel(ctx)
	txns := 0
	dying := New(etcdkv.New(etcd, prefix, etcdkv.Options{OnRequest: func(kind string, _ int) {
		if kind == "txn" {
			if txns++; txns == 2 {
				cancel()
			}
		}
	}}), NewCache(1), ring)
	_, err := dying.Reseal(interrupted)
	etcdtest.WantKind(t, err, errs.Unavailable)
	n, err := s.Reseal(ctx)
	etcdtest.Must(t, err)
	stop()
	readers.Wait()
	if n.Large != 1 || n.Left != 0 {
		t.Errorf("Reseal = %+v, want one content that is too large", n)
	}
	count, err := s.CountSealed(ctx, true)
	etcdtest.Must(t, err)
	if count.Keys[next.ID()] != 4 || count.Keys[former.ID()] != 1 || count.Plain != 0 {
		t.Errorf("%+v, want 4 contents with the key in use %s", count, next.ID())
	}
	if again, err := s.Reseal(ctx); err != nil || again.Left != 0 {
		t.Errorf("a second run: %+v, %v", again, err)
	}
	if _, err := clear.readBlob(ctx, manifest.DigestOf([]byte("plain"))); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "blob") {
		t.Errorf("a reader without keys: %v, want Unavailable naming the blob", err)
	}
}

// BenchmarkPack shows what sealing adds to the compression of a manifest of usual size.
func BenchmarkPack(b *testing.B) {
	text := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n" + strings.Repeat("  key: a value of a chart\n", 40))
	for name, s := range map[string]*seal.Sealer{"plain": nil, "sealed": seal.New(seal.NewKey())} {
		b.Run(name, func(b *testing.B) {
			p, d := packer{newCompressor(), s}, manifest.DigestOf(text)
			for b.Loop() {
				if _, err := p.pack(d, text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
