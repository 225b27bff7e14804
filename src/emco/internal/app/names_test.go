package app_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

// Names that are equal in file systems without letter case, or in names of Kubernetes objects, are refused, and the refusal names
// the first. What is accepted is in Git exactly as it is written. Of concurrent requests one wins.
func TestH14NamesThatFallTogetherAreRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("Store_1")
	s.onboard("web_Front")
	g := s.group("autumn", appPlaces{"web_Front": nil})
	g.act("instantiate")
	g.becomes("Instantiated")
	exact := "clusters/edge+Store_1/context/" + s.contextOf(g.path) + "/app/web_Front/"
	if paths := s.tree(); !slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, exact) }) {
		t.Errorf("no file is below %s: %q", exact, paths)
	}

	clusters, apps := provider+"/clusters", till+"/apps"
	cluster := func(name string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"gitOps":{"gitOpsType":"git","gitOpsReferenceObject":"repo"}}}`
	}
	for _, c := range []struct{ path, body, first string }{
		{"projects", named("Shop"), "shop"},
		{"cluster-providers", named("EDGE"), "edge"},
		{clusters, cluster("store_1"), "Store_1"},
		{clusters, cluster("Store-1"), "Store_1"},
		{clusters, cluster("store.1"), "Store_1"},
	} {
		if body := s.expect(409, "POST", c.path, c.body); !strings.Contains(body, "differs in letter case or punctuation only is taken: "+c.first) {
			t.Errorf("POST %s %s: the refusal does not name %s: %s", c.path, c.body, c.first, body)
		}
	}
	for _, name := range []string{"Web_Front", "web-front"} {
		if a := s.send(s.uploadRequest("POST", apps, named(name), s.chart(name, configMap))); a.Status != 409 || !strings.Contains(a.Body, "is taken: web_Front") {
			t.Errorf("the app %s: %d %s", name, a.Status, a.Body)
		}
	}
	s.expect(201, "POST", "cluster-providers", named("other"))
	s.expect(201, "POST", "cluster-providers/other/cluster-sync-objects", s.syncObject("repo", s.git.URL("fleet"), s.token))
	s.expect(201, "POST", "cluster-providers/other/clusters", cluster("store-1")) // names are of their provider

	var created []string
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, name := range []string{"north_1", "North_1", "north-1", "NORTH.1", "north.1", "North-1"} {
		all.Go(func() {
			if s.do("POST", clusters, cluster(name)).Status == 201 {
				mu.Lock()
				defer mu.Unlock()
				created = append(created, name)
			}
		})
	}
	all.Wait()
	if len(created) != 1 {
		t.Fatalf("of names that fall together %q were created, want one", created)
	}
	s.expect(204, "DELETE", clusters+"/"+created[0], "")
	s.expect(201, "POST", clusters, cluster("NORTH_1"))
}
