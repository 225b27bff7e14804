package app_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// After the restore of an older backup the branch holds the content of later revisions. EMCO detects
// and reports that, and writes the restored desired state again; then the status is correct.
func TestF04ARestoredAppContextIsFoundOut(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, func(c *config.Config) {
		onSQLite(c)
		c.Git.Look = config.Duration(100 * time.Millisecond)
	})
	s.fleet("a", "b")
	s.onboard("cache", "web")
	g := s.group("autumn", appPlaces{"web": {"a", "b"}, "cache": {"a"}})
	g.act("instantiate")
	id := g.becomes("Instantiated").States.StatusCtxID
	before := []string{object("a", id, "cache"), object("a", id, "web"), object("b", id, "web")}
	s.wantTree(before...)

	s.stop()
	backup := filepath.Join(s.dir, "backup")
	s.must("back up", exec.Command("cp", "-a", s.config.Data, backup).Run())
	s.start()
	g.moveTo("web", "a")
	g.act("update?force=true")
	g.becomes("Instantiated")
	s.eventually("the app leaves the cluster", func() string {
		if len(s.tree()) == 3 {
			return ""
		}
		return strings.Join(s.tree(), " ")
	})

	s.stop()
	s.must("lose the data", os.RemoveAll(s.config.Data))
	s.must("restore", exec.Command("cp", "-a", backup, s.config.Data).Run())
	s.start()
	s.eventually("the branch holds what the restored state wants", func() string {
		if got := s.tree(); !slices.Equal(got, slices.Sorted(slices.Values(append([]string{"README.md"}, before...)))) {
			return strings.Join(got, " ")
		}
		return ""
	})
	g.becomes("Instantiated")
	if !strings.Contains(s.log.String(), "the AppContext is older than a branch") {
		t.Error("the log does not say that the AppContext was restored")
	}
}
