package app_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// An older program wrote testdata/upgrade.tar.gz: its data folder, and the Git repository
// that it delivered to, which it reached as http://git.example/fleet.git. The folder holds
// a project, the clusters a and b, the instantiated logical cloud "stores", the composite
// app "till" of cache and web, the group "autumn" at revision 2, a report of cluster a, and
// the terminated group "winter".
const (
	upgradeFixture = "testdata/upgrade.tar.gz"
	upgradeToken   = "token-of-the-fixture"
)

// newUpgrade starts today's program on what the older one left behind.
func newUpgrade(t *testing.T) *testStage {
	t.Helper()
	s := &testStage{T: t, dir: t.TempDir(), token: upgradeToken, log: &logBuffer{}}
	s.must("unpack "+upgradeFixture, unpack(upgradeFixture, s.dir))
	var err error
	s.git, err = gittest.Serve(filepath.Join(s.dir, "git"), gittest.User{Name: writer, Token: s.token, Write: true})
	s.must("serve Git", err)
	t.Cleanup(func() { _ = s.git.Close() })
	s.bare = s.git.Bare("fleet")
	s.read = newBranchCache(s.bare)

	s.config = config.Default()
	s.config.Data = filepath.Join(s.dir, "data")
	s.config.HTTP.Address, s.config.GRPC.Address = "127.0.0.1:0", "127.0.0.1:0"
	s.config.Git.Window = config.Duration(time.Millisecond)
	s.config.Status.Stale = config.Duration(100 * 365 * 24 * time.Hour) // the report of the fixture counts
	file := filepath.Join(s.dir, "emco.yaml")
	text, err := config.Print(s.config)
	s.must("write the configuration", err)
	s.must("write the configuration", os.WriteFile(file, text, 0o600))

	// A process of its own, because a program reads its proxy once. The Git server is the
	// proxy: it serves a repository under any host name.
	proxy := strings.TrimSuffix(s.git.URL("fleet"), "/fleet.git")
	p, err := startProcess(s.log, "", file, "HTTP_PROXY="+proxy, "http_proxy="+proxy, "NO_PROXY=", "no_proxy=")
	s.must("start emco", err)
	s.stop = func() { s.must("stop emco", p.stop()) }
	t.Cleanup(s.end)
	s.address = "http://" + p.address
	s.api, err = client.New(client.Options{BaseURL: s.address})
	s.must("make a client", err)
	return s
}

// unpack writes the folders and files of an archive below dir. Zeros at the end of a file
// take no room on the disk.
func unpack(archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o700)
		} else {
			err = unpackFile(path, r, h.Size)
		}
		if err != nil {
			return err
		}
	}
}

func unpackFile(path string, r io.Reader, size int64) error {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fs.FileMode(0o600))
	if err != nil {
		return err
	}
	block, zero := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); at < size && err == nil; {
		n := int(min(int64(len(block)), size-at))
		if _, err = io.ReadFull(r, block[:n]); err == nil && !slices.Equal(block[:n], zero[:n]) {
			_, err = out.WriteAt(block[:n], at)
		}
		at += int64(n)
	}
	if err == nil {
		err = out.Truncate(size)
	}
	return errors.Join(err, out.Close())
}

// The program reads everything that an older one stored, and continues from there.
func TestTheDataOfAnOlderProgramIsReadAndContinued(t *testing.T) {
	t.Parallel()
	s := newUpgrade(t)
	g := testGroup{s, till + "/deployment-intent-groups/autumn"}

	st := g.query("?status=ready")
	id := st.States.StatusCtxID
	if st.DeployedStatus != "Instantiated" {
		t.Errorf("deployedStatus is %s, want Instantiated", st.DeployedStatus)
	}
	wantEqual(s, "actions", history(st), []string{
		"Created - 0", "Approved - 0", "Instantiated first 1", "Updated first 1", "Instantiated other 2",
	})
	wantEqual(s, "pairs", pairs(st), []string{"cache a Applied", "web a Applied", "web b Applied"})
	for _, want := range []struct {
		app, cluster string
		reported     bool
	}{{"cache", "a", true}, {"web", "a", true}, {"web", "b", false}} {
		got := pair(st, want.app, want.cluster)
		if got.Revision != 2 || (got.LastReport != nil) != want.reported {
			t.Errorf("%s on %s: revision %d, last report %v; want revision 2, reported: %t", want.app, want.cluster, got.Revision, got.LastReport, want.reported)
		}
	}
	if got := fmt.Sprint(st.ReadyCounts); got != "map[Ready:2 Unknown:1]" {
		t.Errorf("ready counts are %s, want 2 ready and 1 unknown", got)
	}
	var answer v2.RevisionsAnswer
	s.must("read the revisions", json.Unmarshal([]byte(g.expect(200, "GET", g.path+"/revisions", "")), &answer))
	if len(answer.Revisions) != 2 {
		t.Errorf("%d revisions, want 2", len(answer.Revisions))
	}
	if body := g.expect(200, "GET", g.path+"/events", ""); !strings.Contains(body, "Instantiated") {
		t.Errorf("events: %s", body)
	}
	if winter := (testGroup{s, till + "/deployment-intent-groups/winter"}); winter.status().DeployedStatus != "Terminated" {
		t.Errorf("the terminated group is %s, want Terminated", winter.status().DeployedStatus)
	}
	for _, path := range []string{
		provider + "/clusters/a", provider + "/clusters/b", provider + "/clusters/a/labels/all", provider + "/cluster-sync-objects/repo",
		cloud, cloud + "/cluster-references/a", till, till + "/apps/cache", till + "/composite-profiles/small/profiles/web",
		g.path, g.path + "/generic-placement-intents/places/app-intents/cache", g.path + "/intents/all",
	} {
		s.expect(200, "GET", path, "")
	}
	first := s.tree()

	g.moveTo("cache", "b") // the packages and the sealed token are read for this
	g.expect(202, "POST", g.path+"/update", "")
	s.eventually("revision 3 is on the branch", func() string {
		st = g.status()
		if got := fmt.Sprint(pairs(st)); got != "[cache b Applied web a Applied web b Applied]" {
			return got
		}
		return ""
	})
	s.wantTree(object("a", id, "web"), object("b", id, "cache"), object("b", id, "web"))

	g.expect(202, "POST", g.path+"/rollback", `{"metadata":{"description":"as it was"},"spec":{"revision":"2"}}`)
	s.eventually("the rollback is on the branch", func() string {
		if got := s.tree(); !slices.Equal(got, first) {
			return strings.Join(got, " ")
		}
		return ""
	})
	g.becomes("Instantiated")
	g.act("terminate")
	g.becomes("Terminated")
	s.wantTree()
}
