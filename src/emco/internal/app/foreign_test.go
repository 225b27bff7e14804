package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// lookedAt is a stage that checks its branches all the time, with one deployment on clusters
// whose sync object sets the policy for external edits.
func lookedAt(t *testing.T, policy string) (*testStage, testGroup, string) {
	t.Helper()
	s := newStageWith(t, func(c *config.Config) { c.Git.Look = config.Duration(100 * time.Millisecond) })
	s.expect(201, "POST", "cluster-providers", named("edge"))
	s.expect(201, "POST", provider+"/cluster-sync-objects", `{"metadata":{"name":"repo"},"spec":{"kv":[{"url":"`+s.git.URL("fleet")+`","userName":"`+writer+`","gitToken":"`+s.token+`","branch":"`+branch+`","onForeignEdit":"`+policy+`"}]}}`)
	s.expect(201, "POST", "projects", named("shop"))
	s.expect(201, "POST", "projects/shop/logical-clouds", `{"metadata":{"name":"stores"},"spec":{"level":"0"}}`)
	for _, c := range []string{"a", "b"} {
		s.cluster(c, "repo")
		s.member(c)
	}
	s.expect(202, "POST", cloud+"/instantiate", "")
	s.onboard("web", "db")
	g := s.group("autumn", appPlaces{"web": nil, "db": nil})
	g.act("instantiate")
	return s, g, g.becomes("Instantiated").States.StatusCtxID
}

// foreign commits files in another author's name; an empty content removes one.
func (s *testStage) foreign(files map[string]string) string {
	s.Helper()
	all := map[string]gittest.File{}
	for path, content := range files {
		all[path] = gittest.File{Content: content}
	}
	_, err := s.bare.CommitExternal(s.Context(), branch, all)
	s.must("commit something else", err)
	return s.idOf(branch)
}

// noticed waits until the edit of a pair is as it should be.
func (g testGroup) noticed(app, cluster string, is func(e v2.ExternalEdit) bool) (c v2.ClusterStatus) {
	g.Helper()
	g.eventually("the edit of "+app+" on "+cluster, func() string {
		c = pair(g.status(), app, cluster)
		if c.ExternalEdit == nil || !is(*c.ExternalEdit) {
			return fmt.Sprintf("%+v %+v", c, c.ExternalEdit)
		}
		return ""
	})
	return c
}

// H-48: someone else edits one of our files and adds another one in our folder. The status
// names author, commit and path, and the edit is overwritten at once although no delivery
// is pending. A foreign file elsewhere stays.
func TestH48ForeignEditsAreToldAndWrittenOver(t *testing.T) {
	t.Parallel()
	s, g, id := lookedAt(t, "overwrite")
	file := object("a", id, "web")
	ours := s.file(file)
	bad := s.foreign(map[string]string{file: "by: hand\n", "clusters/edge+a/context/" + id + "/app/web/extra.yaml": "x: y\n", "clusters/edge+b/NOTES.md": "mine"})
	c := g.noticed("web", "a", func(e v2.ExternalEdit) bool { return e.Undone != "" })
	e := *c.ExternalEdit
	if e.Commit != bad || !strings.Contains(e.Author, "<") || !slices.Contains(e.Paths, file) || len(e.Paths) != 2 || e.Held {
		t.Errorf("the edit is %+v, of commit %s", e, bad)
	}
	if c.Phase != "Applied" || e.Undone != c.Commit || s.file(file) != ours {
		t.Errorf("it is not written over: %+v, %q", c, s.file(file))
	}
	files := s.files(branch)
	if !slices.Contains(files, "clusters/edge+b/NOTES.md") || slices.ContainsFunc(files, func(p string) bool { return strings.HasSuffix(p, "extra.yaml") }) {
		t.Errorf("the branch holds %v", files)
	}
	for _, other := range []v2.ClusterStatus{pair(g.status(), "db", "a"), pair(g.status(), "web", "b")} {
		if other.ExternalEdit != nil || other.Phase != "Applied" {
			t.Errorf("an unchanged app: %+v", other)
		}
	}
	if events := g.expect(200, "GET", g.path+"/events", ""); !strings.Contains(events, "ForeignEdit") || !strings.Contains(events, bad[:12]) || !strings.Contains(events, e.Paths[0]) {
		t.Errorf("the events are %s", events)
	}

	// An edit that a delivery of ours overwrites is reported as well.
	s.must("remove a file", func() error {
		_, err := s.bare.CommitExternal(t.Context(), branch, map[string]gittest.File{object("b", id, "db"): {Content: "by: hand\n"}})
		return err
	}())
	s.repack("db", configMap+"  more: \"yes\"\n")
	g.expect(http.StatusAccepted, "POST", g.path+"/update", "")
	g.noticed("db", "b", func(e v2.ExternalEdit) bool { return e.Undone != "" })
	s.eventually("the update is there", func() string {
		return unless(fmt.Sprint(strings.Contains(s.file(object("b", id, "db")), "more")), "true")
	})
	g.becomes("Instantiated")
}

// H-48: if the sync object holds edits, an edit stays until a user decides: nothing is
// delivered to that deployment on that cluster; everything else continues.
func TestH48ForeignEditsAreHeld(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"restore", "adopt"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s, g, id := lookedAt(t, "hold")
			file := object("a", id, "web")
			ours := s.file(file)
			s.foreign(map[string]string{file: "by: hand\n"})
			c := g.noticed("web", "a", func(e v2.ExternalEdit) bool { return e.Held })
			if c.Phase != "Failed" || !strings.Contains(c.Error, "ForeignEdit") || !strings.Contains(c.Error, file) {
				t.Errorf("the held pair is %+v", c)
			}
			s.stop() // it is remembered
			s.start()
			s.repack("web", configMap+"  more: \"yes\"\n")
			g.expect(http.StatusAccepted, "POST", g.path+"/update", "")
			s.eventually("the other cluster is updated", func() string {
				return unless(fmt.Sprint(strings.Contains(s.file(object("b", id, "web")), "more")), "true")
			})
			s.eventually("the held one is not", func() string { return unless(pair(g.status(), "web", "a").Phase, "Failed") })
			if got := s.file(file); got != "by: hand\n" || got == ours {
				t.Errorf("the held file is %q", got)
			}
			s.expect(http.StatusAccepted, "POST", "git/"+how, `{"url":"`+s.git.URL("fleet")+`","branch":"`+branch+`"}`)
			s.eventually("then it is written", func() string {
				return unless(fmt.Sprint(strings.Contains(s.file(file), "more")), "true")
			})
			g.becomes("Instantiated")
		})
	}
}

// H-48: an adopted edit stays until the next delivery.
func TestH48AdoptedEditsStay(t *testing.T) {
	t.Parallel()
	s, g, id := lookedAt(t, "hold")
	file := object("a", id, "web")
	s.foreign(map[string]string{file: "by: hand\n"})
	g.noticed("web", "a", func(e v2.ExternalEdit) bool { return e.Held })
	s.expect(http.StatusAccepted, "POST", "git/adopt", `{"url":"`+s.git.URL("fleet")+`","branch":"`+branch+`"}`)
	c := g.noticed("web", "a", func(e v2.ExternalEdit) bool { return e.Kept })
	if c.Phase != "Applied" || s.file(file) != "by: hand\n" {
		t.Errorf("the adopted edit: %+v, %q", c, s.file(file))
	}
	s.repack("web", configMap+"  more: \"yes\"\n")
	g.expect(http.StatusAccepted, "POST", g.path+"/update", "")
	g.noticed("web", "a", func(e v2.ExternalEdit) bool { return e.Undone != "" && !e.Kept })
	g.becomes("Instantiated")
}
