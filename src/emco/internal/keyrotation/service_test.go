package keyrotation

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/kek"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/keyring"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
)

func TestMain(m *testing.M) {
	if code, asked := etcdtest.Main(os.Args); asked {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

var must = etcdtest.Must

func holdsValues(k store.Key) bool { return strings.Contains(string(k), "/kv-pairs/") }

// A look that sealed something again is not the last one: another process may have sealed with the former key
// meanwhile, documents or contents.
func TestResealLooksAgainUntilNothingIsLeft(t *testing.T) {
	t.Parallel()
	client := etcdtest.Start(t, 1, etcdtest.Options{}).Client()
	for name, write := range map[string]func(*testing.T, *store.DB, *appcontext.Store, string){
		"documents": func(t *testing.T, db *store.DB, _ *appcontext.Store, name string) {
			_, err := db.Create(t.Context(), store.Write{Key: store.Key("cluster-providers/edge/clusters/" + name), Body: []byte(`{}`), Secret: seal.Secret(name)})
			must(t, err)
		},
		"bodies of documents": func(t *testing.T, db *store.DB, _ *appcontext.Store, name string) {
			_, err := db.Create(t.Context(), store.Write{Key: store.Key("cluster-providers/edge/kv-pairs/" + name), Body: []byte(`{}`)})
			must(t, err)
		},
		"contents": func(t *testing.T, _ *store.DB, contexts *appcontext.Store, name string) {
			must(t, contexts.PutBlobs(t.Context(), map[manifest.Digest][]byte{manifest.DigestOf([]byte(name)): []byte(name)}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driver, err := sqlite.Open(filepath.Join(t.TempDir(), "documents.db"), sqlite.WithoutFsync())
			must(t, err)
			t.Cleanup(func() { _ = driver.Close() })
			key, prefix, now := seal.NewKey(), etcdtest.Prefix(t), time.Now()
			join := func() (*keyring.Ring, *store.DB, *appcontext.Store) {
				ring := keyring.New()
				must(t, ring.Open(t.Context(), keyring.Options{
					Driver: driver, Wait: time.Second, Now: func() time.Time { return now },
					KEK: func(bool) (kek.Wrapper, error) { return kek.Local(key), nil },
				}))
				return ring, store.New(store.SealBodies(driver, ring.Sealer(), holdsValues), nil, ring.Sealer()), appcontext.New(client, prefix, appcontext.WithSealer(ring.Sealer()))
			}
			ring, db, contexts := join()
			_, late, lateContexts := join() // keeps the former key: it does not look at the keys
			write(t, db, contexts, "early")
			s := &Service{Ring: ring, Driver: driver, Contexts: contexts, Holds: holdsValues, Log: slog.New(slog.DiscardHandler)}
			must(t, ring.Step(t.Context(), s.reseal)) // all is sealed with the first key
			before, err := ring.Keys(t.Context())
			must(t, err)
			_, err = ring.Rotate(t.Context())
			must(t, err)
			now = now.Add(2 * time.Second)
			must(t, ring.Step(t.Context(), s.reseal))
			after, err := ring.Keys(t.Context())
			must(t, err)
			if after.Current().ID == before.Current().ID {
				t.Fatal("the new key does not seal")
			}
			look := func(what string, want bool) {
				t.Helper()
				if done, err := s.reseal(t.Context()); err != nil || done != want {
					t.Errorf("%s: done is %t, %v; want %t", what, done, err, want)
				}
			}
			look("what was sealed before", false)
			write(t, late, lateContexts, "late")
			look("what came late", false)
			look("nothing is left", true)
			report, err := s.verify(t.Context())
			must(t, err)
			if report.Values[before.Current().ID] != 0 || report.Values[after.Current().ID] != 2 || report.Plain != 0 {
				t.Errorf("%+v, want two values of the current key", report)
			}
		})
	}
}
