package app_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
)

// refused starts a program that must refuse to start, and wants each text in the reason.
func (s *testStage) refused(c config.Config, want ...string) {
	s.Helper()
	a, err := app.New(s.Context(), c, slog.New(slog.DiscardHandler), s.options...)
	if err == nil {
		ctx, cancel := context.WithCancel(s.Context())
		cancel()
		_ = a.Run(ctx)
		s.Fatal("the program started")
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			s.Errorf("got %v, want %q in it", err, text)
		}
	}
}

// withoutDocuments moves documents.db away; the returned function brings it back.
func (s *testStage) withoutDocuments() (restore func()) {
	s.Helper()
	kept := filepath.Join(s.dir, "kept")
	s.must("make a folder", os.MkdirAll(kept, 0o700))
	move := func(from, to string) {
		found, err := filepath.Glob(filepath.Join(from, "documents.db*"))
		s.must("find documents.db", err)
		for _, path := range found {
			s.must("move documents.db", os.Rename(path, filepath.Join(to, filepath.Base(path))))
		}
	}
	move(s.config.Data, kept)
	return func() {
		found, err := filepath.Glob(filepath.Join(s.config.Data, "documents.db*"))
		s.must("find documents.db", err)
		for _, path := range found {
			s.must("remove an empty documents.db", os.Remove(path))
		}
		move(kept, s.config.Data)
	}
}

// forgetIDs makes both stores those of an older version, which had no ids.
func (s *testStage) forgetIDs() {
	s.Helper()
	s.inside(func(ctx context.Context, _ *store.DB, etcd *clientv3.Client) {
		_, err := etcd.Delete(ctx, s.config.Etcd.Prefix+"identity")
		s.must("delete the id from etcd", err)
	})
	driver, err := sqlite.Open(s.config.Path("documents.db"))
	s.must("open documents", err)
	doc, err := driver.Get(s.Context(), "store-identity")
	s.must("read the id of the documents", err)
	s.must("remove the id of the documents", driver.Remove(s.Context(), doc.Key, doc.Tag))
	s.must("close documents", driver.Close())
}

// The start is refused if documents.db is lost and the AppContext is not, with the reason and the way back;
// also where both stores are from before they had ids.
func TestF10LostDocumentsAreRefused(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, onSQLite)
	g := s.running("a")
	s.stop()

	for _, old := range []bool{false, true} {
		if old {
			s.forgetIDs()
		}
		restore := s.withoutDocuments()
		for range 2 { // the refused start must not make the next one pass
			s.refused(s.config, "documents.db", "restore them from a backup", s.config.Path("etcd"))
		}
		restore()
		s.start()
		g.becomes("Instantiated")
		s.stop()
	}
}

// Two processes on one etcd with separate data folders: the second is refused. With another
// prefix it starts.
func TestF22ASecondDataFolderIsRefused(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	s := newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints, c.Store.Driver = etcd.Endpoints(), "sqlite" })
	second := s.config
	second.Data = filepath.Join(s.dir, "second")
	s.refused(second, "another process uses this etcd", "etcd.prefix", second.Path("documents.db"))

	own := second
	own.Etcd.Prefix = "/second/"
	other := &testStage{T: t, dir: second.Data, token: "-", log: &logBuffer{}, config: own, options: s.options}
	other.start()
	other.stop()
	s.refused(second, "have different ids", "etcd.prefix")
	s.expect(200, "GET", "projects", "") // the first one is none the worse

	same := s.config // another process of the first installation
	both := &testStage{T: t, dir: s.config.Data, token: "-", log: &logBuffer{}, config: same, options: s.options}
	both.start()
	both.stop()
}
