package app_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// kept copies the data folder of a stopped program.
func (s *testStage) kept(name string) string {
	s.Helper()
	to := filepath.Join(s.dir, name)
	s.must("copy the data folder", exec.Command("cp", "-a", s.config.Data, to).Run())
	return to
}

// assembled makes the data folder of documents and of an AppContext that two other folders hold; of none for "".
func (s *testStage) assembled(documents, contexts string) {
	s.Helper()
	s.must("remove the data folder", os.RemoveAll(s.config.Data))
	s.must("copy a data folder", exec.Command("cp", "-a", documents, s.config.Data).Run())
	s.must("remove the AppContext", os.RemoveAll(s.config.Path("etcd")))
	if contexts != "" {
		s.must("copy the AppContext", exec.Command("cp", "-a", filepath.Join(contexts, "etcd"), s.config.Path("etcd")).Run())
	}
}

// nextGeneration waits until a generation of the stores begins, which is soon after a start.
func (s *testStage) nextGeneration() {
	s.Helper()
	const begun = "a generation of the stores has begun"
	before := strings.Count(s.log.String(), begun)
	s.stop()
	s.start()
	s.eventually("a generation begins", func() string {
		if strings.Count(s.log.String(), begun) > before {
			return ""
		}
		return "not yet"
	})
}

// A store that was restored without the other one, or emptied, is named at the start and by emco doctor, and nothing is changed. With
// emco adopt EMCO goes on: what runs stays, and what users change is delivered.
func TestH39AStoreThatWasRestoredAloneIsRefused(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, onSQLite)
	autumn := s.running("a")
	s.nextGeneration()
	s.stop()
	old := s.kept("old")
	s.start()
	winter := s.group("winter", appPlaces{"web": {"a"}})
	winter.act("instantiate")
	winter.becomes("Instantiated")
	s.nextGeneration()
	s.stop()
	newer := s.kept("newer")
	tree := s.tree()

	args := func(command string) []string {
		return []string{command, "-data", s.config.Data, "-store.driver", "sqlite"}
	}
	named := func(reason string) {
		t.Helper()
		for range 2 { // a refusal does not make the next start pass
			s.refused(s.config, reason, "restore both from the same backup", "emco adopt", s.config.Path("etcd"), s.config.Path("documents.db"))
			if code, text := command(args("doctor")...); code != 1 || !strings.Contains(text, "the stores: ") || !strings.Contains(text, reason) {
				t.Errorf("doctor: exit code %d, %s; want %s", code, text, reason)
			}
		}
	}
	adopted := func() {
		t.Helper()
		if code, text := command(args("adopt")...); code != 0 || !strings.Contains(text, "They are one again") {
			t.Fatalf("adopt: exit code %d, %s", code, text)
		}
		if code, text := command(args("adopt")...); code != 0 || !strings.Contains(text, "nothing was changed") {
			t.Errorf("a second time: exit code %d, %s", code, text)
		}
		s.start()
	}
	delivered := func(g testGroup, value string) {
		t.Helper()
		s.profile("PUT", till+"/composite-profiles/small/profiles/web", "web", value)
		g.act("update?force=true")
		g.becomes("Instantiated")
		s.eventually("the branch has the value", func() string {
			if !slices.Contains(s.greetings(), value) {
				return strings.Join(s.greetings(), " ")
			}
			return ""
		})
	}

	s.assembled(old, newer)
	named("the documents were restored from an older backup")
	if code, text := command(args("doctor")...); code != 1 || !strings.Contains(text, "winter: it is deployed as") {
		t.Errorf("doctor does not name the deployment without a document: exit code %d, %s", code, text)
	}
	adopted()
	delivered(autumn, "first")
	if got := s.tree(); !slices.Equal(got, tree) {
		t.Errorf("the branch holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tree, "\n"))
	}
	s.stop()

	s.assembled(newer, old)
	named("the AppContext was restored from an older backup")
	adopted()
	delivered(autumn, "second")
	s.stop()

	s.assembled(newer, "")
	named("the AppContext was restored from an older backup, or emptied")
	adopted()
	s.expect(202, "POST", cloud+"/instantiate", "")
	autumn.act("approve")
	s.profile("PUT", till+"/composite-profiles/small/profiles/web", "web", "third")
	autumn.act("instantiate")
	autumn.becomes("Instantiated")
	s.eventually("the branch has the value", func() string {
		if !slices.Contains(s.greetings(), "third") {
			return strings.Join(s.greetings(), " ")
		}
		return ""
	})
	s.stop()

	s.assembled(old, old)
	s.start()
	autumn.becomes("Instantiated")
	s.nextGeneration()
	s.stop()
	other := s.kept("other")
	s.assembled(other, newer)
	named("generation")
	s.assembled(newer, newer)
	s.start()
	winter.becomes("Instantiated")
}

// A command fails if its stores do not answer. A start would wait for them. The commands wait ten seconds each, so they run
// concurrently, in the place of one test.
func TestCommandsDoNotWaitForStoresThatAreAway(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for _, args := range [][]string{{"doctor"}, {"adopt"}, {"migrate-store", "-from", "sqlite", "-to", "etcd"}} {
		folder := t.TempDir()
		all.Go(func() {
			code, text := command(append(args, "-data", folder, "-etcd.endpoints", "http://127.0.0.1:1", "-store.driver", "sqlite")...)
			if code != 1 || !strings.Contains(text, "etcd at http://127.0.0.1:1 did not answer") {
				t.Errorf("%s: exit code %d, %s; want that etcd does not answer", args[0], code, text)
			}
		})
	}
	all.Wait()
}

// A command with a data folder that does not exist has the wrong settings. It makes none.
func TestCommandsMakeNoDataFolder(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"doctor"}, {"adopt"}, {"migrate-store", "-from", "sqlite", "-to", "etcd"}} {
		folder := filepath.Join(t.TempDir(), "none")
		code, text := command(append(args, "-data", folder)...)
		if _, err := os.Stat(folder); code != 1 || !strings.Contains(text, "data folder: ") || !os.IsNotExist(err) {
			t.Errorf("%s: exit code %d, %s; the folder: %v", args[0], code, text, err)
		}
	}
}
