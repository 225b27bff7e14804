package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// The doctor finds nothing wrong in whole stores, and names what a partial restore lost.
func TestDoctorComparesTheStores(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, onSQLite)
	s.running("a")
	s.stop()
	text, err := config.Print(s.config)
	s.must("print the configuration", err)
	file := filepath.Join(s.dir, "emco.yaml")
	s.must("write the configuration", os.WriteFile(file, text, 0o600))
	doctor := func(code int, contains ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		got := app.Main([]string{"doctor", "-config", file}, app.IO{In: strings.NewReader(""), Out: &out, Err: &errs})
		for _, c := range contains {
			if got != code || !strings.Contains(out.String(), c) {
				t.Errorf("code %d, %s%s; want %d and %q", got, out.String(), errs.String(), code, c)
			}
		}
	}
	doctor(0, "the stores agree")
	if code, text := command("doctor", "-config", file); code != 0 || !strings.Contains(text, "emco must be stopped meanwhile") {
		t.Errorf("with an embedded etcd: %d %s", code, text)
	}

	packages, err := filepath.Glob(s.config.Path("packages", "??", "*"))
	if err != nil || len(packages) == 0 {
		t.Fatalf("packages: %v, %v", packages, err)
	}
	for i, file := range packages {
		s.must("remove a package", os.Remove(file))
		if i == 0 {
			doctor(1, "\n1 fault; docs/guides/backup.md")
		}
	}
	s.inside(func(ctx context.Context, _ *store.DB, etcd *clientv3.Client) {
		_, err := etcd.Delete(ctx, s.config.Etcd.Prefix+"blob/", clientv3.WithPrefix())
		s.must("remove content", err)
	})
	doctor(1, "web: its package ", "needs it: ", "faults; docs/guides/backup.md")
}

// The doctor says at once what it reads, and that processes write meanwhile.
func TestDoctorSaysWhatItReads(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	s := newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints = etcd.Endpoints() })
	text, err := config.Print(s.config)
	s.must("print the configuration", err)
	file := filepath.Join(s.dir, "emco.yaml")
	s.must("write the configuration", os.WriteFile(file, text, 0o600))
	reads := "emco doctor: reading etcd below " + s.config.Etcd.Prefix + " and etcd at " + etcd.Endpoints()[0]
	const others = "emco doctor: what running processes write meanwhile may look like a fault"
	if code, text := command("doctor", "-config", file); code != 0 || !strings.HasPrefix(text, reads) || !strings.Contains(text, others) {
		t.Errorf("beside a process: %d %s", code, text)
	}
	s.stop()
	if code, text := command("doctor", "-config", file); code != 0 || !strings.HasPrefix(text, reads) || strings.Contains(text, others) {
		t.Errorf("alone: %d %s", code, text)
	}
}

// EMCO names what it finds, while it runs and while it is stopped: a deployment whose head is lost, folders on a branch that no
// deployment owns, and owners of work that are on no lease. What is right is not named.
func TestDoctorNamesWhatBelongsToNobody(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, onSQLite)
	g := s.running("a", "b")
	id := s.contextOf(g.path)
	asked := func(path string) (out v2.DoctorAnswer) {
		t.Helper()
		s.must("read the answer", json.Unmarshal([]byte(s.expect(200, "GET", path, "")), &out))
		return out
	}
	for _, path := range []string{"views/doctor", "views/doctor/branches"} {
		if got := asked(path); len(got.Faults) != 0 {
			t.Errorf("%s names %v in stores that agree", path, got.Faults)
		}
	}
	foreign := map[string]gittest.File{}
	for _, folder := range []string{"edge+a/context/4711", "edge+b/context/4711", "7f/edge+c/context/4712", "edge+a/context/notes"} {
		foreign["clusters/"+folder+"/app/web/x.yaml"] = gittest.File{Content: "a: 1\n"}
	}
	_, err := s.bare.CommitExternal(t.Context(), branch, foreign)
	s.must("write to the branch", err)
	folder := "branch main of " + s.git.URL("fleet") + ": folder clusters/edge+a/context/4711 and 1 more of deployment 4711 belong to no deployment that EMCO knows"
	s.eventually("the files of nobody are named", func() string {
		got := asked("views/doctor/branches")
		if len(got.Faults) != 2 || got.Continue != "" || !strings.HasPrefix(got.Faults[0].Subject+": "+got.Faults[0].Fault, folder) {
			return fmt.Sprint(got)
		}
		return ""
	})
	s.stop()

	args := func(more ...string) []string {
		return append([]string{"doctor", "-data", s.config.Data, "-store.driver", "sqlite"}, more...)
	}
	if code, text := command(args()...); code != 0 || !strings.Contains(text, "the stores agree") {
		t.Errorf("without reading branches: exit code %d, %s", code, text)
	}
	s.inside(func(ctx context.Context, _ *store.DB, etcd *clientv3.Client) {
		_, err := etcd.Put(ctx, s.config.Etcd.Prefix+"own/rsync-99", "another")
		s.must("leave an owner", err)
		_, err = etcd.Delete(ctx, s.config.Etcd.Prefix+"head/"+id)
		s.must("lose a head", err)
	})
	code, text := command(args("-branches")...)
	for _, want := range []string{
		folder,
		"folder clusters/7f/edge+c/context/4712 belongs to no deployment",
		"folder clusters/edge+a/context/" + id + " and 1 more of deployment " + id + " belong to no deployment that EMCO knows, so nothing changes or removes what is in it. " + g.path + " has the id " + id + " and no head: restore the AppContext",
		g.path + ": its head is missing, and its history ends with Instantiated at ",
		"own/rsync-99: it is on no lease",
		"etcdctl del " + s.config.Etcd.Prefix + "own/rsync-99",
	} {
		if code != 1 || !strings.Contains(text, want) {
			t.Errorf("exit code %d, want 1 and %q in\n%s", code, want, text)
		}
	}
	if strings.Contains(text, "notes") {
		t.Errorf("a folder that is no deployment's is named:\n%s", text)
	}
	s.start()
	got := asked("views/doctor")
	if len(got.Faults) != 2 || got.Faults[0].Subject != g.path || !strings.HasSuffix(got.Faults[1].Subject, "own/rsync-99") {
		t.Errorf("while EMCO runs, doctor names %v", got.Faults)
	}
}
