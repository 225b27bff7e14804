package app_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// command runs a command of the program, and returns its exit code and all that it wrote.
func command(args ...string) (code int, text string) {
	var out bytes.Buffer
	code = app.Main(args, app.IO{In: strings.NewReader(""), Out: &out, Err: &out})
	return code, out.String()
}

// greetings returns the values of greeting in the files of the branch.
func (s *testStage) greetings() (out []string) {
	s.Helper()
	for _, path := range s.tree() {
		if _, value, found := strings.Cut(s.file(path), "greeting: "); found {
			out = append(out, strings.TrimSpace(strings.SplitN(value, "\n", 2)[0]))
		}
	}
	return out
}

// A running program is backed up while others write. The backup restores into an empty folder: what was
// answered before it is there, the next revision follows the last one, and its commits go through although the
// branch holds those of a later process.
func TestABackupOfARunningProgramRestores(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"sqlite", "etcd"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			backUpAndRestore(t, driver)
		})
	}
}

func backUpAndRestore(t *testing.T, driver string) {
	s := newStageWith(t, func(c *config.Config) { c.Store.Driver = driver })
	g := s.running("a")

	file := filepath.Join(s.dir, "emco.backup")
	stop, written := make(chan struct{}), make(chan int)
	go func() { // writes while the backup is made
		n := 0
		for ; ; n++ {
			select {
			case <-stop:
				written <- n
				return
			default:
				_ = s.do("POST", "projects", named(fmt.Sprint("during-", n)))
			}
		}
	}()
	code, text := command("backup", "-data", s.config.Data, "-to", file)
	close(stop)
	if n := <-written; code != 0 || n == 0 || !strings.Contains(text, "sealing key") {
		t.Fatalf("backup: exit code %d, %d writes meanwhile, %s", code, n, text)
	}
	if code, text := command("backup", "-data", s.config.Data, "-to", file); code != 1 || !strings.Contains(text, "exists already") {
		t.Errorf("a second backup to the same file: exit code %d, %s", code, text)
	}

	for _, lost := range []string{"lost", "lost-too"} { // another process, with a higher fence
		s.stop()
		s.start()
		s.profile("PUT", till+"/composite-profiles/small/profiles/web", "web", lost)
		g.act("update")
		g.becomes("Instantiated")
	}
	s.stop()

	old := s.config.Data
	s.config.Data = filepath.Join(s.dir, "restored")
	s.must("make a folder", os.Mkdir(s.config.Data, 0o700))
	key, err := os.ReadFile(filepath.Join(old, "sealing.key"))
	s.must("read the key", err)
	s.must("restore the key", os.WriteFile(filepath.Join(s.config.Data, "sealing.key"), key, 0o600))
	if code, text := command("restore", "-data", s.config.Data, "-from", file); code != 0 {
		t.Fatalf("restore: exit code %d, %s", code, text)
	}
	if code, text := command("restore", "-data", s.config.Data, "-from", file); code != 1 || !strings.Contains(text, "is not empty") {
		t.Errorf("a restore over a full folder: exit code %d, %s", code, text)
	}
	if code, text := command("doctor", "-data", s.config.Data, "-store.driver", driver); code != 0 {
		t.Errorf("doctor: exit code %d, %s", code, text)
	}
	s.start()
	g.settled(1)
	s.profile("PUT", till+"/composite-profiles/small/profiles/web", "web", "restored")
	g.act("update")
	g.settled(1001) // revisions 2 and 3 were made after the backup
	if got := s.greetings(); len(got) != 1 || got[0] != "restored" {
		t.Errorf("the branch holds %q", got)
	}
}

// A damaged backup, or one that is not whole, is refused, and leaves no folder.
func TestADamagedBackupIsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.onboardOnly()
	file := filepath.Join(s.dir, "emco.backup")
	if code, text := command("backup", "-data", s.config.Data, "-to", file); code != 0 {
		t.Fatalf("backup: exit code %d, %s", code, text)
	}
	whole, err := os.ReadFile(file)
	s.must("read the backup", err)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	for name, text := range map[string][]byte{"flipped": flipped, "cut off": whole[:len(whole)-len(whole)/3], "cut off early": whole[:len(whole)/7], "empty": nil, "text": []byte("no tar")} {
		spoilt, target := filepath.Join(s.dir, name), filepath.Join(s.dir, "target "+name)
		s.must("write a file", os.WriteFile(spoilt, text, 0o600))
		if code, out := command("restore", "-data", target, "-from", spoilt); code != 1 {
			t.Errorf("%s: exit code %d, %s", name, code, out)
		} else if strings.HasPrefix(name, "cut off") && !strings.Contains(out, spoilt+" is cut off: ") {
			t.Errorf("%s: %s", name, out)
		}
		if found, _ := filepath.Glob(target + "*"); len(found) > 0 {
			t.Errorf("%s: a refused restore leaves %q", name, found)
		}
	}
	if code, text := command("backup", "-data", filepath.Join(s.dir, "nowhere"), "-to", file+"2"); code != 1 || !strings.Contains(text, "start emco") {
		t.Errorf("a backup of nothing: exit code %d, %s", code, text)
	}
}

// onboardOnly makes an app with a package.
func (s *testStage) onboardOnly() {
	s.Helper()
	s.expect(201, "POST", "projects", named("shop"))
	s.onboard("web")
}

// Documents move to another store and everything goes on; a second time, or while a process runs, they do not.
func TestDocumentsMoveToAnotherStore(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	s := newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints, c.Store.Driver = etcd.Endpoints(), "sqlite" })
	g := s.running("a")
	move := func() (int, string) {
		return command("migrate-store", "-from", "sqlite", "-to", "etcd", "-data", s.config.Data, "-etcd.endpoints", etcd.Endpoints()[0])
	}
	if code, text := move(); code != 1 || !strings.Contains(text, "stop") {
		t.Errorf("while a process runs: exit code %d, %s", code, text)
	}
	s.stop()
	if code, text := move(); code != 0 {
		t.Fatalf("exit code %d, %s", code, text)
	}
	if code, text := move(); code != 1 || !strings.Contains(text, "has documents already") {
		t.Errorf("a second time: exit code %d, %s", code, text)
	}
	s.must("remove the former documents", os.Remove(filepath.Join(s.config.Data, "documents.db")))
	s.must("remove the former packages", os.RemoveAll(filepath.Join(s.config.Data, "packages")))
	s.config.Store.Driver = "etcd"
	s.start()
	g.becomes("Instantiated")
	s.profile("PUT", till+"/composite-profiles/small/profiles/web", "web", "moved")
	g.act("update")
	g.settled(2)
}
