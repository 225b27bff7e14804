package generation_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/generation"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/transfer"
)

// bed makes stores in one etcd.
type bed struct {
	*testing.T
	etcd   *clientv3.Client
	driver string
}

// onEveryDriver runs a test with each driver of documents.
func onEveryDriver(t *testing.T, test func(b *bed)) {
	t.Parallel()
	for name := range all.Drivers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "mongo" && os.Getenv("EMCO_MONGO_URI") == "" {
				t.Skip("set EMCO_MONGO_URI to the address of a server")
			}
			server, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), NoFsync: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = server.Close() })
			test(&bed{t, server.Client(), name})
		})
	}
}

func (b *bed) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// documents returns an empty store.
func (b *bed) documents() store.Driver {
	b.Helper()
	name := strings.ToLower(rand.Text()[:10])
	d, _, err := all.Drivers()[b.driver](b.Context(), all.Place{
		URI: os.Getenv("EMCO_MONGO_URI"), Database: "emco_test_" + name, File: filepath.Join(b.TempDir(), "docs.db"),
		Packages: b.TempDir(), Etcd: etcdkv.New(b.etcd, "/"+name+"/", etcdkv.Options{}),
	})
	b.must(err)
	b.Cleanup(func() { _ = d.Close() })
	return d
}

// contexts returns an AppContext, and its prefix in etcd.
func (b *bed) contexts() (*appcontext.Store, string) {
	prefix := "/" + rand.Text() + "/"
	return appcontext.New(b.etcd, prefix), prefix
}

// restored returns documents as they were when they were written to a backup.
func (b *bed) restored(backup []byte) store.Driver {
	b.Helper()
	d := b.documents()
	_, err := transfer.Read(b.Context(), bytes.NewReader(backup), d)
	b.must(err)
	return d
}

func (b *bed) backup(d store.Driver) []byte {
	b.Helper()
	var out bytes.Buffer
	_, _, err := transfer.Write(b.Context(), d, &out)
	b.must(err)
	return out.Bytes()
}

// copied returns an AppContext with all that is below a prefix.
func (b *bed) copied(prefix string) *appcontext.Store {
	b.Helper()
	to, target := b.contexts()
	r, err := b.etcd.Get(b.Context(), prefix, clientv3.WithPrefix())
	b.must(err)
	for _, kv := range r.Kvs {
		_, err := b.etcd.Put(b.Context(), target+strings.TrimPrefix(string(kv.Key), prefix), string(kv.Value))
		b.must(err)
	}
	return to
}

func (b *bed) advance(s generation.Stores) {
	b.Helper()
	b.must(s.Advance(b.Context(), time.Now()))
}

// Stores that were restored to different times are named, whichever it is, and stay as they are. Those of the same time belong together.
func TestH39RestoredStoresAreNamed(t *testing.T) {
	onEveryDriver(t, func(b *bed) {
		documents := b.documents()
		contexts, prefix := b.contexts()
		now := generation.Stores{Documents: documents, Contexts: contexts}
		b.must(now.Compare(b.Context())) // of an older version: none has a generation
		b.advance(now)
		b.advance(now)
		backup, older, former := b.backup(documents), b.copied(prefix), b.copied(prefix)
		b.advance(now)
		b.must(now.Compare(b.Context()))

		both := generation.Stores{Documents: b.restored(backup), Contexts: former}
		b.must(both.Compare(b.Context()))
		b.advance(both) // a second life, where the number of the third generation is used again

		empty, _ := b.contexts()
		for name, tt := range map[string]struct {
			stores generation.Stores
			want   string
		}{
			"documents older":    {generation.Stores{Documents: b.restored(backup), Contexts: b.copied(prefix)}, "the documents were restored from an older backup"},
			"documents emptied":  {generation.Stores{Documents: b.documents(), Contexts: b.copied(prefix)}, "the documents are of generation 0, the AppContext of generation 3 (begun 20"},
			"AppContext older":   {generation.Stores{Documents: b.restored(b.backup(documents)), Contexts: older}, "the AppContext was restored from an older backup"},
			"AppContext emptied": {generation.Stores{Documents: b.restored(b.backup(documents)), Contexts: empty}, "the AppContext of generation 0: the AppContext was"},
			"another life":       {generation.Stores{Documents: both.Documents, Contexts: b.copied(prefix)}, "used without the other one"},
		} {
			for range 2 { // asking changes nothing
				for _, err := range []error{tt.stores.Compare(b.Context()), tt.stores.Advance(b.Context(), time.Now())} {
					if apart, ok := errors.AsType[*generation.Apart](err); !ok || !strings.Contains(apart.Error(), tt.want) {
						b.Errorf("%s: %v, want %q", name, err, tt.want)
					}
				}
			}
			b.must(tt.stores.Adopt(b.Context(), time.Now()))
			b.must(tt.stores.Compare(b.Context()))
			b.advance(tt.stores)
		}
	})
}

// Where the AppContext is the older store, numbers of revisions that were given after its backup are not given again.
func TestH39NumbersOfRevisionsJumpWhereTheAppContextIsOlder(t *testing.T) {
	onEveryDriver(t, func(b *bed) {
		documents := b.documents()
		contexts, prefix := b.contexts()
		_, err := contexts.ChangeHead(b.Context(), appcontext.Head{}, appcontext.Head{UID: "7", LastRev: 3}, nil, nil)
		b.must(err)
		now := generation.Stores{Documents: documents, Contexts: contexts}
		b.advance(now)
		older := b.copied(prefix)
		backup := b.backup(documents)
		b.advance(now)
		for _, tt := range []struct {
			stores generation.Stores
			want   int64
		}{
			{generation.Stores{Documents: b.restored(backup), Contexts: contexts}, 4},
			{generation.Stores{Documents: documents, Contexts: older}, 1001},
		} {
			b.must(tt.stores.Adopt(b.Context(), time.Now()))
			h, err := tt.stores.Contexts.Head(b.Context(), "7")
			b.must(err)
			if h.NextRevision() != tt.want {
				b.Errorf("the next revision is %d, want %d", h.NextRevision(), tt.want)
			}
		}
	})
}

// failing is a driver whose process is killed at a Put.
type failing struct {
	store.Driver
	before, after error // of the write; nil: not there
}

func (f failing) Put(ctx context.Context, d store.Doc, at int64) error {
	if f.before != nil {
		return f.before
	}
	return errors.Join(f.Driver.Put(ctx, d, at), f.after)
}

// A generation that a process left half-way, at any step, does not set the stores apart; the next process completes it.
func TestAGenerationThatIsLeftHalfWayIsCompleted(t *testing.T) {
	onEveryDriver(t, func(b *bed) {
		lost := errs.New(errs.Unavailable, "the process was killed")
		contexts, _ := b.contexts()
		documents := b.documents()
		now := generation.Stores{Documents: documents, Contexts: contexts}
		for name, broken := range map[string]failing{
			"announced":        {Driver: documents, before: lost},
			"in the documents": {Driver: documents, after: lost},
		} {
			before, err := contexts.Generations(b.Context())
			b.must(err)
			err = generation.Stores{Documents: broken, Contexts: contexts}.Advance(b.Context(), time.Now())
			half, readErr := contexts.Generations(b.Context())
			b.must(readErr)
			if err == nil || half.Next.Number != before.Number+1 {
				b.Errorf("%s: %v, %+v after %+v", name, err, half, before)
			}
			b.must(now.Compare(b.Context()))
			b.advance(now)
			b.must(now.Compare(b.Context()))
			if after, err := contexts.Generations(b.Context()); err != nil || after.Generation != half.Next || !after.Next.IsZero() {
				b.Errorf("%s: %+v, %v after %+v", name, after, err, half)
			}
		}
	})
}

// overtaken is a driver whose first Put comes after what another process does.
type overtaken struct {
	store.Driver
	first func()
}

func (o *overtaken) Put(ctx context.Context, d store.Doc, at int64) error {
	if first := o.first; first != nil {
		o.first = nil
		first()
	}
	return o.Driver.Put(ctx, d, at)
}

// An adoption while another process changes the generations fails if the stores are still apart, and does not claim to have joined them.
func TestAnAdoptionThatIsOvertakenIsNoSuccess(t *testing.T) {
	onEveryDriver(t, func(b *bed) {
		for name, joins := range map[string]bool{"by one that joins them too": true, "by one that does not": false} {
			documents := b.documents()
			contexts, prefix := b.contexts()
			b.advance(generation.Stores{Documents: documents, Contexts: contexts})
			older := b.restored(b.backup(documents))
			b.advance(generation.Stores{Documents: documents, Contexts: contexts})
			apart := generation.Stores{Documents: older, Contexts: b.copied(prefix)}
			mine := apart
			mine.Documents = &overtaken{older, func() {
				if joins {
					b.must(apart.Adopt(b.Context(), time.Now()))
					return
				}
				was, err := store.Generation(b.Context(), older)
				b.must(err)
				b.must(store.PutGeneration(b.Context(), older, was, []byte(`{"number":40,"token":"another","begun":"2026-11-23T12:00:00Z"}`)))
			}}
			err := mine.Adopt(b.Context(), time.Now())
			if left := apart.Compare(b.Context()); joins && (err != nil || left != nil) {
				b.Errorf("%s: %v, and the stores: %v", name, err, left)
			} else if !joins && (!errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "stop all processes") || left == nil) {
				b.Errorf("%s: %v, and the stores: %v", name, err, left)
			}
		}
	})
}

// Processes that begin and compare generations at the same time never see stores apart.
func TestProcessesBeginGenerationsTogether(t *testing.T) {
	onEveryDriver(t, func(b *bed) {
		contexts, _ := b.contexts()
		now := generation.Stores{Documents: b.documents(), Contexts: contexts}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for range 20 {
					err := now.Advance(b.Context(), time.Now())
					if err == nil {
						err = now.Compare(b.Context())
					}
					if err != nil && !errs.Is(err, errs.Unavailable) {
						b.Error(err)
					}
				}
			})
		}
		all.Wait()
		b.must(now.Compare(b.Context()))
		if g, err := contexts.Generations(b.Context()); err != nil || g.Number < 5 {
			b.Errorf("%+v, %v; want 5 generations at least", g, err)
		}
	})
}

// A process that stops begins a generation: copies of one store from before, and of the other one from after it, are distinguished.
func TestH39AGenerationBeginsWhenAProcessStops(t *testing.T) {
	onEveryDriver(t, func(b *bed) {
		documents := b.documents()
		contexts, prefix := b.contexts()
		now := generation.Stores{Documents: documents, Contexts: contexts}
		b.advance(now)
		service := generation.NewService(now, time.Hour, time.Hour, slog.New(slog.DiscardHandler))
		before := b.backup(documents)
		ctx, stop := context.WithCancel(b.Context())
		stop()
		b.must(service.Run(ctx))
		b.must(now.Compare(b.Context()))
		mixed := generation.Stores{Documents: b.restored(before), Contexts: b.copied(prefix)}
		err := mixed.Compare(b.Context())
		if apart, ok := errors.AsType[*generation.Apart](err); !ok || !strings.Contains(apart.Error(), "the documents were restored from an older backup") {
			b.Errorf("got %v for documents of before the stop beside an AppContext of after it", err)
		}
		for range 2 { // stores that do not belong together stay as they are
			b.must(generation.NewService(mixed, 0, time.Hour, slog.New(slog.DiscardHandler)).Run(ctx))
		}
		if err := mixed.Compare(b.Context()); err == nil {
			b.Error("a stop has joined stores that do not belong together")
		}
	})
}
