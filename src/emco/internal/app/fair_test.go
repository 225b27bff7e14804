package app_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// looping is a template that renders for hours.
const looping = "{{ range until 10000 }}{{ range until 10000 }}{{ range until 10000 }}{{ end }}{{ end }}{{ end }}"

// loud makes a project with six deployments of four apps that loop, and instantiates them. It
// returns the paths of the groups.
func (s *testStage) loud() (groups []string) {
	s.Helper()
	const at = "projects/loud/composite-apps/din/v1"
	s.expect(201, "POST", "projects", named("loud"))
	s.expect(201, "POST", "projects/loud/logical-clouds", `{"metadata":{"name":"stores"},"spec":{"level":"0"}}`)
	s.expect(201, "POST", "projects/loud/logical-clouds/stores/cluster-references", `{"metadata":{"name":"a"},"spec":{"clusterProvider":"edge","cluster":"a"}}`)
	s.expect(202, "POST", "projects/loud/logical-clouds/stores/instantiate", "")
	s.expect(201, "POST", "projects/loud/composite-apps", `{"metadata":{"name":"din"},"spec":{"compositeAppVersion":"v1"}}`)
	s.expect(201, "POST", at+"/composite-profiles", named("small"))
	apps := []string{"one", "two", "three", "four"}
	for _, name := range apps {
		s.upload("POST", at+"/apps", named(name), s.chart(name, looping))
		s.profile("POST", at+"/composite-profiles/small/profiles", name, "profile")
	}
	for i := range 6 {
		g := fmt.Sprintf("%s/deployment-intent-groups/g%d", at, i)
		s.expect(201, "POST", at+"/deployment-intent-groups", fmt.Sprintf(`{"metadata":{"name":"g%d"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores"}}`, i))
		s.expect(201, "POST", g+"/generic-placement-intents", named("places"))
		for _, name := range apps {
			s.expect(201, "POST", g+"/generic-placement-intents/places/app-intents",
				fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"app":%q,"intent":{"allOf":[{"clusterProvider":"edge","cluster":"a"}]}}}`, name, name))
		}
		s.expect(201, "POST", g+"/intents", `{"metadata":{"name":"all"},"spec":{"intent":{"genericPlacementIntent":"places"}}}`)
		s.expect(202, "POST", g+"/approve", "")
		s.expect(202, "POST", g+"/instantiate", "")
		groups = append(groups, g)
	}
	return groups
}

// A small deployment is Instantiated while six deployments of another project render their four looping apps each, which
// never end. It waits for none of their renderings: from its request until it is Instantiated, none of them begins or ends. Alone it
// would only have more processors; the others use at most one for each of their slots. The log has the times.
func TestF27F69LoopingChartsOfAProjectDoNotDelayAnother(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.stop()
	s.options = []app.Option{app.WithoutFsync()} // charts render in children
	s.config.Render.Timeout = config.Duration(24 * time.Hour)
	s.start()
	s.fleet("a")
	s.onboard("cache", "web")
	took := func(name string) time.Duration {
		g := s.group(name, appPlaces{"cache": nil, "web": nil})
		start := time.Now()
		g.act("instantiate")
		g.becomes("Instantiated")
		return time.Since(start)
	}
	wantRenders := func(when, begun, ended string) {
		t.Helper()
		if b, e := s.metric("emco_renders_total"), s.metric(`emco_render_duration_seconds_count{result="ok"}`); b != begun || e != ended {
			t.Errorf("%s %s renderings had begun and %s ended, want %s and %s", when, b, e, begun, ended)
		}
	}
	alone := took("alone")
	wantRenders("alone", "2", "2")
	groups := s.loud()
	s.eventually("the looping charts of four operations", func() string { return unless(s.metric("emco_renders_total"), "18") })
	beside := took("beside")
	wantRenders("beside 24 looping charts", "20", "4")
	for _, g := range groups {
		if got := (testGroup{s, g}).status().DeployedStatus; got != "Instantiating" {
			t.Errorf("%s was %s first", g, got)
		}
	}
	t.Logf("a small deployment is Instantiated in %s alone, and in %s beside 24 looping charts", alone, beside)
}
