package app_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
)

// beside returns a second program on the same etcd, with a data folder of its own.
func (s *testStage) beside(change func(*config.Config)) *testStage {
	c := s.config
	c.Data = filepath.Join(s.dir, "second")
	change(&c)
	return &testStage{T: s.T, dir: c.Data, token: "-", log: &logBuffer{}, git: s.git, bare: s.bare, read: s.read, config: c, options: s.options}
}

// Two processes with separate folders and one etcd serve the same documents and packages: what one has
// taken in, the other delivers, and the other way round.
func TestTwoFoldersShareDocumentsInEtcd(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	key := config.Secret(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	s := newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints, c.Store.Key = etcd.Endpoints(), key })
	second := s.beside(func(*config.Config) {})
	second.start()
	defer second.stop()

	s.fleet("a")
	s.onboard("web")
	second.expect(200, "GET", "projects/shop", "")
	s.stop() // documents and packages are not on its disk
	g := second.group("autumn", appPlaces{"web": nil})
	g.act("instantiate")
	g.becomes("Instantiated")
	s.start()
	g.becomes("Instantiated")
	s.expect(200, "GET", "projects/shop", "")
	for _, folder := range []string{s.config.Data, second.config.Data} {
		for _, name := range []string{"documents.db", "packages"} {
			if _, err := os.Stat(filepath.Join(folder, name)); !os.IsNotExist(err) {
				t.Errorf("%s is in %s: %v", name, folder, err)
			}
		}
	}
}

// A process with another sealing key than the others is refused, also before anything is sealed.
func TestAnotherSealingKeyIsRefused(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	s := newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints, c.Store.Driver = etcd.Endpoints(), "" })
	none := s.beside(func(*config.Config) {})
	none.refused(none.config, "sealing.key", "is missing", "store.key")
	other := s.beside(func(c *config.Config) {
		c.Store.Key = config.Secret(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 32))))
	})
	other.refused(other.config, "sealing key", "store.key of the others")

	text, err := os.ReadFile(filepath.Join(s.config.Data, "sealing.key"))
	s.must("read the key", err)
	same := s.beside(func(c *config.Config) { c.Store.Key = config.Secret(strings.TrimSpace(string(text))) })
	same.start()
	same.stop()
}

// A folder of an older version keeps its documents although etcd is external.
func TestAnOlderFolderKeepsItsDocuments(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	s := newStageWith(t, func(c *config.Config) {
		c.Etcd.Endpoints, c.Store.Driver = etcd.Endpoints(), ""
		d, err := sqlite.Open(c.Path("documents.db"))
		if err == nil {
			err = d.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	s.expect(201, "POST", "projects", `{"metadata":{"name":"kept"}}`)
	s.stop()
	d, err := sqlite.Open(s.config.Path("documents.db"))
	s.must("open documents.db", err)
	defer d.Close()
	if _, err := d.Get(t.Context(), "projects/kept"); err != nil {
		t.Error(err)
	}
}

// With three processes on an etcd, a request asks once how far the documents are, and has those that are read often in memory. What it
// reads of etcd besides is the AppContext.
func TestRequestsReadDocumentsFromMemory(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	key := config.Secret(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	s := newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints, c.Store.Key = etcd.Endpoints(), key })
	second := s.beside(func(*config.Config) {})
	third := s.beside(func(c *config.Config) { c.Data = filepath.Join(s.dir, "third") })
	for _, p := range []*testStage{second, third} {
		p.start()
		defer p.stop()
	}
	s.fleet("a", "b", "c")
	s.onboard("cache", "db", "web")
	g := s.group("autumn", appPlaces{"cache": nil, "db": nil, "web": nil})
	g.act("instantiate")
	g.becomes("Instantiated")
	none := func(int) string { return "" }
	cluster := func(i int) string {
		return fmt.Sprintf(`{"metadata":{"name":"n%d"},"spec":{"gitOps":{"gitOpsType":"git","gitOpsReferenceObject":"repo"}}}`, i)
	}
	label := func(i int) string { return fmt.Sprintf(`{"clusterLabel":"l%d"}`, i) }
	rows := []struct {
		name, method, path string
		body               func(i int) string
		status             int
		reads              float64 // of etcd at most
	}{
		{"a document", "GET", provider + "/clusters/a", none, 200, 1},
		{"a list", "GET", till + "/apps", none, 200, 1},
		{"a status", "GET", g.path + "/status", none, 200, 4},
		{"a dry run of an update", "POST", g.path + "/update?dryRun=true", none, 200, 3},
		{"a new cluster", "POST", provider + "/clusters", cluster, 201, 3},
		{"a label", "POST", provider + "/clusters/a/labels", label, 201, 1},
	}
	for _, row := range rows {
		least := 1e9 // the process reads in between too
		for i := range 12 {
			before := second.reads()
			second.expect(row.status, row.method, row.path, row.body(i))
			least = min(least, second.reads()-before)
		}
		t.Logf("%s takes %v reads", row.name, least)
		if least > row.reads {
			t.Errorf("%s takes %v reads of etcd, want %v at most", row.name, least, row.reads)
		}
	}
}

// reads returns how many times the program has read from etcd.
func (s *testStage) reads() (n float64) {
	s.Helper()
	for _, kind := range []string{"get", "list"} {
		n += number(s.metric(`emco_etcd_operations_total{kind="` + kind + `"}`))
	}
	return n
}
