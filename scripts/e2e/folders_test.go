package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/scripts/testbed/ferretdb"
)

// S-04: two processes on different machines have nothing in common but their servers and the sealing key. They serve
// the same project: one takes a deployment with a large package in and is killed, the other delivers and changes it; the first
// comes back with an empty folder and continues.
func TestReplicasWithSeparateFolders(t *testing.T) { serveFromSeparateFolders(t) }

// The same with documents in a server that speaks MongoDB's protocol.
func TestMongoReplicasWithSeparateFoldersOnFerretDB(t *testing.T) {
	serveFromSeparateFolders(t, "-store.driver", "mongo", "-store.mongo.uri", startFerretDB(t))
}

// The contract of the driver for MongoDB, against a server that speaks its protocol.
func TestMongoContractOnFerretDB(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "./internal/store/mongo", "./internal/store/all", "./internal/generation")
	cmd.Dir = "../../src/emco"
	cmd.Env = append(os.Environ(), "EMCO_MONGO_URI="+startFerretDB(t), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Errorf("tests were skipped although there is a server:\n%s", out)
	}
	t.Logf("%d tests passed", strings.Count(string(out), "--- PASS"))
}

func startFerretDB(t *testing.T) (uri string) {
	t.Helper()
	server, err := ferretdb.Start(t.Context(), ferretdb.Options{Dir: t.TempDir(), Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server.URI()
}

func serveFromSeparateFolders(t *testing.T, settings ...string) {
	t.Helper()
	do := steps{TB: t}
	do.next("one etcd, two processes with separate folders and one sealing key")
	s, etcd := newStageOnEtcd(t)
	args := append(settings, "-etcd.endpoints", etcd, "-etcd.prefix", "/emco-"+filepath.Base(s.dir)+"/", "-lease", "3s")
	start := func(name string) (*program.Emco, error) {
		return program.Start(t.Context(), program.Options{Bin: binaries(), Dir: filepath.Join(s.dir, name), Args: args})
	}
	giveKey := func(name string) {
		key, err := os.ReadFile(filepath.Join(s.dir, "one", "data", "sealing.key"))
		s.must("read the sealing key", err)
		data := filepath.Join(s.dir, name, "data")
		s.must("create a data folder", os.MkdirAll(data, 0o700))
		s.must("copy the sealing key", os.WriteFile(filepath.Join(data, "sealing.key"), key, 0o600))
	}
	one, err := start("one")
	s.must("start the first process", err)
	t.Cleanup(func() { one.Kill() })
	if _, err := start("without-key"); err == nil || !strings.Contains(err.Error(), "store.key") {
		t.Fatalf("a process without the sealing key starts: %v", err)
	}
	giveKey("two")
	two, err := start("two")
	s.must("start the second process", err)
	t.Cleanup(func() { two.Kill() })

	do.next("the first takes in clusters, charts and the deployment, and is killed")
	s.emco = one
	f := s.fleet()
	s.must("register the fleet", f.Found(t.Context(), s.repository()))
	s.must("register clusters", f.Register(t.Context(), 3))
	s.must("open the logical cloud", f.OpenCloud(t.Context()))
	d := apps("shared", 2, 3)
	for i := range 5 { // files that do not shrink: the package has nearly 20 MiB, the limit
		d.Apps[1].Chart = d.Apps[1].Chart.With(fmt.Sprintf("files/%d.bin", i), noise(39<<20/10, uint64(i)))
	}
	s.must("onboard", f.Onboard(t.Context(), s.dir, d))
	one.Kill()

	do.next("the second delivers it, and a change")
	s.emco = two
	f = s.fleet()
	s.phase(d, "instantiate", v2.StatusInstantiated)
	s.must("change a value", f.Revalue(t.Context(), d, d.Apps[0].Chart, "colour: green\n"))
	s.phase(d, "update", v2.StatusInstantiated)
	s.wantColour("green")

	do.next("the first comes back with an empty folder and changes it again")
	giveKey("three")
	three, err := start("three")
	s.must("start again", err)
	t.Cleanup(func() { three.Kill() })
	s.emco = three
	f = s.fleet()
	s.must("change a value", f.Revalue(t.Context(), d, d.Apps[0].Chart, "colour: red\n"))
	s.phase(d, "update", v2.StatusInstantiated)
	s.wantColour("red")
	s.phase(d, "terminate", v2.StatusTerminated)
	s.sound()
	for _, name := range []string{"one", "two", "three"} {
		for _, file := range []string{"documents.db", "packages", "etcd"} {
			if _, err := os.Stat(filepath.Join(s.dir, name, "data", file)); !os.IsNotExist(err) {
				t.Errorf("process %s keeps %s on its own disk: %v", name, file, err)
			}
		}
	}
	s.must("end", two.Stop())
	s.must("end", three.Stop())
	s.emco = nil
	do.next("done")
}

// noise returns bytes that no compression makes fewer.
func noise(n int, seed uint64) string {
	out, r := make([]byte, n), rand.New(rand.NewPCG(seed, seed))
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return string(out)
}

// wantColour checks the value in the repository.
func (s *testStage) wantColour(want string) {
	s.Helper()
	text, err := s.bare.Git(s.Context(), "", "grep", "-h", "colour", branch, "--", "*app00-00*")
	s.must("search the branch", err)
	if !strings.Contains(text, want) {
		s.Errorf("the branch contains %q, want %s", text, want)
	}
}
