package app_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// levelSettle is how long processes must have known a level in these tests.
const levelSettle = 300 * time.Millisecond

// knowing returns another process of an installation, which knows stored data up to a level.
func (s *testStage) knowing(level int) *testStage {
	other := s.beside(func(c *config.Config) { c.Data = s.config.Data })
	other.options = append(slices.Clone(s.options), app.WithLevel(level, levelSettle))
	return other
}

// wantLevels waits until /readyz describes the levels.
func (s *testStage) wantLevels(want string) {
	s.Helper()
	s.eventually(want, func() string {
		if got := string(s.do("GET", "/readyz?verbose", "").Body); !strings.Contains(got, "level: ready; "+want+"\n") {
			return got
		}
		return ""
	})
}

// A process has one name, with which it is announced, takes part in all work, and owns shards.
func TestAProcessHasOneName(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	s := newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints = etcd.Endpoints() })
	client := etcd.Client()
	names, audits := map[string]bool{}, false
	for _, space := range []string{"/member/", "/own/"} {
		r, err := client.Get(t.Context(), strings.TrimSuffix(s.config.Etcd.Prefix, "/")+space, clientv3.WithPrefix())
		s.must("read", err)
		for _, kv := range r.Kvs {
			name := path.Base(string(kv.Key))
			if space == "/own/" {
				audits = audits || strings.Contains(name, "audit")
				name = string(kv.Value)
			}
			if kv.Lease != 0 {
				names[name] = true
			}
		}
	}
	if len(names) != 1 || !audits {
		t.Errorf("the names %v, and the audit log has an owner: %t; want one name", slices.Collect(maps.Keys(names)), audits)
	}
}

// Processes with other settings are named by each other, and stay ready, so that a setting can be changed in one after the other.
func TestProcessesWithOtherSettingsAreNamed(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	s := newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints = etcd.Endpoints() }, app.WithLevel(1, levelSettle))
	wants := func(s *testStage, want string) {
		t.Helper()
		s.eventually(want, func() string {
			a := s.do("GET", "/readyz?verbose", "")
			if a.Status == http.StatusOK && strings.Contains(string(a.Body), "\nsettings: ready; "+want) {
				return ""
			}
			return fmt.Sprint(a.Status, " ", a.Body)
		})
	}
	wants(s, "those of 0 other processes agree\n")
	other := s.beside(func(c *config.Config) { c.Data, c.Audit.Mode = s.config.Data, config.AuditOff })
	other.start()
	wants(other, "these differ: audit.mode in ")
	wants(s, "these differ: audit.mode in ")
	if text := string(s.do("GET", "/metrics", "").Body); !strings.Contains(text, "\nemco_settings_differing 1\n") {
		t.Error("the metric does not show it")
	}
	other.stop()
	wants(s, "those of 0 other processes agree\n")
}

// underLoad changes a document, and reads it again, without a pause. Each request must be answered as if nothing else
// happened, until stop returns.
func (s *testStage) underLoad(name string) (stop func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	changes, ended := 0, make(chan struct{})
	at := "projects/" + name
	change := func() error {
		text := fmt.Sprintf(`{"metadata":{"name":%q,"description":"change %d"}}`, name, changes)
		put, err := s.api.Do(s.Context(), client.Request{Method: "PUT", Path: at, Body: client.JSON([]byte(text))})
		if err != nil {
			return err
		}
		if put.Status/100 != 2 {
			return fmt.Errorf("PUT: %d %s", put.Status, put.Body)
		}
		get, err := s.api.Do(s.Context(), client.Request{Method: "GET", Path: at})
		if err == nil && !strings.Contains(string(get.Body), fmt.Sprintf(`"change %d"`, changes)) {
			err = fmt.Errorf("GET: %d %s", get.Status, get.Body)
		}
		return err
	}
	go func() {
		defer close(ended)
		for ; ctx.Err() == nil; changes++ {
			if err := change(); err != nil {
				s.Errorf("%s, change %d: %v", name, changes, err)
				return
			}
		}
	}()
	return func() {
		s.Helper()
		cancel()
		<-ended
		if changes == 0 {
			s.Errorf("%s was not changed", name)
		}
	}
}

// S-08: an older and a newer program serve together at the older one's level, under load. When the older one has ended, the
// level rises, and the older program refuses to start; the newer one is none the worse.
func TestMixedVersionsServeTogether(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	old := newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints = etcd.Endpoints() }, app.WithLevel(1, levelSettle))
	old.wantLevels("stores at 1, this version knows 1, the oldest of 1 processes knows 1")
	renewed := old.knowing(2)
	endLoad := old.underLoad("changed-by-the-older")
	for range 2 { // once more, because a downgrade works
		renewed.start()
		endSecond := renewed.underLoad("changed-by-the-newer")
		renewed.wantLevels("stores at 1, this version knows 2, the oldest of 2 processes knows 1")
		old.wantLevels("stores at 1, this version knows 1, the oldest of 2 processes knows 1")
		endSecond()
		renewed.stop()
		old.wantLevels("stores at 1, this version knows 1, the oldest of 1 processes knows 1")
	}

	renewed.start()
	g := old.running("a")
	const pausing = `{"metadata":{"name":"pausing"},"spec":{"rollout":{"waves":[{"clusters":1,"pause":true}]}}}`
	if a := renewed.send(renewed.uploadRequest("POST", till+"/apps", pausing, renewed.chart("pausing", configMap))); a.Status != http.StatusConflict || !strings.Contains(string(a.Body), "needs level 2 of stored data, and 1 is in force") {
		t.Errorf("an app that the older program would misread: %d %s", a.Status, a.Body)
	}
	testGroup{renewed, g.path}.becomes("Instantiated")
	endLoad()
	endLoad = renewed.underLoad("changed-while-the-level-rises")
	old.stop()
	renewed.wantLevels("stores at 2, this version knows 2, the oldest of 1 processes knows 2")
	endLoad()
	if got := string(renewed.do("GET", "/metrics", "").Body); !strings.Contains(got, "\nemco_level 2\n") {
		t.Error("the metrics do not show level 2")
	}
	old.refused(old.config, "at level 2", "this version", "knows level 1", "restore the backup from before the upgrade")
	renewed.upload("POST", till+"/apps", pausing, renewed.chart("pausing", configMap))
	testGroup{renewed, g.path}.act("terminate")
	testGroup{renewed, g.path}.becomes("Terminated")
	renewed.wantLevels("stores at 2, this version knows 2, the oldest of 1 processes knows 2")
	renewed.stop()
}

// Embedded stores are at the level of their program at once, and an older one refuses them.
func TestAnOlderProgramRefusesEmbeddedStores(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, func(*config.Config) {}, app.WithLevel(2, levelSettle))
	s.wantLevels("stores at 2, this version knows 2, the oldest of 1 processes knows 2")
	s.stop()
	older := s.knowing(1)
	older.refused(s.config, "at level 2", "knows level 1")
	s.start()
	s.expect(200, "GET", "projects", "")
}

// Where the level is left to an operator, the older program starts again until emco level raise, also on embedded stores.
func TestTheOlderProgramStartsUntilAnOperatorRaisesTheLevel(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	for name, endpoints := range map[string][]string{"embedded": nil, "a common etcd": etcd.Endpoints()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStageWith(t, func(c *config.Config) { c.Level.Auto, c.Etcd.Endpoints = false, endpoints }, app.WithLevel(1, levelSettle))
			s.wantLevels("stores at 1, this version knows 1, the oldest of 1 processes knows 1")
			s.stop()
			renewed := s.knowing(2)
			renewed.start()
			const waits = "stores at 1, this version knows 2, the oldest of 1 processes knows 2; emco level raise raises it"
			renewed.wantLevels(waits)
			if code, text := command("level", "-data", s.config.Data, "show"); code != 0 || text != waits+"\n" {
				t.Errorf("show: exit code %d, %s", code, text)
			}
			renewed.expect(201, "POST", "projects", `{"metadata":{"name":"made-by-the-newer"}}`)
			renewed.stop()
			s.start() // a downgrade
			s.expect(200, "GET", "projects/made-by-the-newer", "")
			s.stop()

			renewed.start()
			renewed.wantLevels(waits)
			if code, text := command("level", "-data", s.config.Data, "raise"); code != 0 || text != "the level of the stores rose from 1 to 2; versions that know less no longer start\n" {
				t.Errorf("raise: exit code %d, %s", code, text)
			}
			renewed.wantLevels("stores at 2, this version knows 2, the oldest of 1 processes knows 2")
			if code, text := command("level", "-data", s.config.Data, "raise"); code != 1 || !strings.Contains(text, "there is nothing to raise: the stores are at 2, and all processes know 2") {
				t.Errorf("raise again: exit code %d, %s", code, text)
			}
			if text := string(renewed.expect(200, "GET", "audit?phase=intent", "")); !strings.Contains(text, `"verb":"act:raise","type":"level"`) {
				t.Errorf("the audit log has no line of the raise: %s", text)
			}
			renewed.stop()
			s.refused(s.config, "at level 2", "knows level 1")
		})
	}
	for want, args := range map[int][]string{1: {"level", "-data", t.TempDir(), "show"}, 2: {"level", "lower"}} {
		if code, text := command(args...); code != want || !strings.Contains(text, "emco level") {
			t.Errorf("%v: exit code %d, %s; want %d", args, code, text, want)
		}
	}
}

// A process that starts while etcd is full is not announced to the others, so the level may rise above what it knows.
// Until it is announced it accepts no changes, also where its documents have space.
func TestAProcessThatIsNotAnnouncedAcceptsNoChanges(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{Quota: 4 << 20})
	s := newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints, c.Store.Driver = etcd.Endpoints(), "sqlite" })
	s.expect(201, "POST", "projects", `{"metadata":{"name":"early"}}`)
	s.stop()
	filler := etcd.Client()
	fill(s, filler)
	s.launch()
	const project = `{"metadata":{"name":"late"}}`
	if a := s.do("POST", "projects", project); a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, "other processes do not know of this one") {
		t.Errorf("got %d %s, want 503 with the reason", a.Status, a.Body)
	}
	for _, r := range [][3]string{{"DELETE", "projects/early"}, {"POST", provider + "/clusters/a/monitor/report", "{}"}} {
		if a := s.do(r[0], r[1], r[2]); a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, "other processes do not know of this one") {
			t.Errorf("%s %s: %d %s, want 503 with the reason", r[0], r[1], a.Status, a.Body)
		}
	}
	if a := s.do("GET", "/readyz", ""); a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, "level: ") {
		t.Errorf("/readyz: %d %s, want 503 because of the level", a.Status, a.Body)
	}
	s.expect(200, "GET", "projects", "")
	empty(s, filler, etcd.Endpoints()[0])
	s.eventually("ready", func() string {
		if a := s.do("GET", "/readyz", ""); a.Status != http.StatusOK {
			return a.Body
		}
		return ""
	})
	s.expect(201, "POST", "projects", project)
	s.expect(204, "DELETE", "projects/early", "")
}

// emco migrate-store refuses documents of a higher level, as a start does.
func TestMovingDocumentsRefusesAHigherLevel(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	s := newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints, c.Store.Driver = etcd.Endpoints(), "sqlite" }, app.WithLevel(99, levelSettle))
	s.wantLevels("stores at 99, this version knows 99, the oldest of 1 processes knows 99")
	s.stop()
	code, text := command("migrate-store", "-from", "sqlite", "-to", "etcd", "-data", s.config.Data, "-etcd.endpoints", etcd.Endpoints()[0])
	if code != 1 || !strings.Contains(text, "at level 99") {
		t.Errorf("exit code %d, %s; want it refused because of the level", code, text)
	}
}
