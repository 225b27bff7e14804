package app_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// startController starts the controllers of examples/04-controller in another process, and returns their port and a function that
// kills them.
func startController(t *testing.T) (port string, end func()) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "controller")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".")
	build.Dir = "../../../../examples/04-controller"
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the controller: %v\n%s", err, out)
	}
	controller := exec.CommandContext(t.Context(), bin, "-listen", "127.0.0.1:0")
	stdout, err := controller.StdoutPipe()
	if err == nil {
		err = controller.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		if err := controller.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = controller.Wait() // it was killed
	}
	t.Cleanup(end)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, port, err = net.SplitHostPort(strings.TrimPrefix(strings.TrimSpace(line), "listening on "))
	if err != nil {
		t.Fatalf("the controller says %q: %v", line, err)
	}
	return port, end
}

// groupOfRegions makes a deployment of the app web everywhere, whose intents name an action controller.
func (s *testStage) groupOfRegions(host, port string) testGroup {
	s.Helper()
	s.onboard("web")
	s.expect(201, "POST", "controllers", `{"metadata":{"name":"regions"},"spec":{"host":"`+host+`","port":`+port+`,"type":"action","priority":1}}`)
	g := s.group("autumn", appPlaces{"web": nil})
	s.expect(201, "POST", g.path+"/intents", `{"metadata":{"name":"regions"},"spec":{"intent":{"regions":"region"}}}`)
	return g
}

// The action controller of the example is called, and its edits are carried out. When it is gone, updates are refused and
// nothing changes.
func TestAControllerInAnotherProcess(t *testing.T) {
	t.Parallel()
	port, end := startController(t)
	s := newStage(t)
	s.fleet("a", "b", "c")
	s.expect(201, "POST", provider+"/clusters/a/labels", `{"clusterLabel":"region-north"}`)
	s.expect(201, "POST", provider+"/clusters/b/labels", `{"clusterLabel":"region-south"}`)
	g := s.groupOfRegions("127.0.0.1", port)
	g.act("instantiate")
	g.becomes("Instantiated")
	id := s.contextOf(g.path)
	path := func(cluster string) string {
		return "clusters/edge+" + cluster + "/context/" + id + "/app/web/region+ConfigMap.yaml"
	}
	if north, south := s.file(path("a")), s.file(path("b")); !strings.Contains(north, "region: north") || !strings.Contains(south, "region: south") {
		t.Errorf("a has %s\nb has %s", north, south)
	}
	tree := s.tree()
	if strings.Contains(strings.Join(tree, "\n"), path("c")) {
		t.Errorf("c, which has no region, has one: %v", tree)
	}

	end()
	s.expect(201, "POST", provider+"/clusters/c/labels", `{"clusterLabel":"region-south"}`)
	if answer := s.expect(503, "POST", g.path+"/update", ""); !strings.Contains(answer, "controller regions") {
		t.Errorf("the answer does not name the controller: %s", answer)
	}
	if now := s.tree(); strings.Join(now, "\n") != strings.Join(tree, "\n") {
		t.Errorf("the refused update has changed the branch to %v", now)
	}
}

// The placement controller of the example spreads two apps over the clusters of an anyOf; EMCO alone chooses the first one.
func TestAPlacementControllerInAnotherProcess(t *testing.T) {
	t.Parallel()
	port, end := startController(t)
	s := newStage(t)
	s.fleet("a", "b", "c", "d")
	s.onboard("web", "cache")
	s.expect(201, "POST", "controllers", `{"metadata":{"name":"spread"},"spec":{"host":"127.0.0.1","port":`+port+`,"type":"placement","priority":1}}`)
	g := s.group("autumn", appPlaces{"web": nil, "cache": nil})
	for _, app := range []string{"web", "cache"} {
		s.expect(200, "PUT", g.path+"/generic-placement-intents/places/app-intents/"+app,
			`{"metadata":{"name":"`+app+`"},"spec":{"app":"`+app+`","intent":{"anyOf":[{"clusterProvider":"edge","clusterLabel":"all"}]}}}`)
	}
	s.expect(201, "POST", g.path+"/intents", `{"metadata":{"name":"spread"},"spec":{"intent":{"spread":"apps"}}}`)
	explained := s.expect(200, "GET", g.path+"/placement?explain=true", "")
	for _, want := range []string{
		`{"app":"web","cluster":"edge+c","verdict":"in","reason":"anyOf: the first admitted of 4 by name; controller spread: the lowest number is 01d8b6d4"}`,
		`{"app":"web","cluster":"edge+a","verdict":"out","reason":"controller spread: has the number 42173e6b"}`,
		`{"app":"cache","cluster":"edge+d","verdict":"in",`,
	} {
		if !strings.Contains(explained, want) {
			t.Errorf("the explanation %s lacks %s", explained, want)
		}
	}
	g.act("instantiate")
	g.becomes("Instantiated")
	id := s.contextOf(g.path)
	places := func() string {
		var out []string
		for _, file := range s.tree() {
			if _, app, found := strings.Cut(file, "/context/"+id+"/app/"); found {
				app, _, _ = strings.Cut(app, "/")
				out = append(out, app+" on "+strings.TrimPrefix(strings.SplitN(file, "/", 3)[1], "edge+"))
			}
		}
		slices.Sort(out)
		return strings.Join(slices.Compact(out), ", ")
	}
	if got := places(); got != "cache on d, web on c" {
		t.Errorf("the branch has %s", got)
	}

	end()
	if answer := s.expect(503, "POST", g.path+"/update", ""); !strings.Contains(answer, "controller spread") {
		t.Errorf("the answer does not name the controller: %s", answer)
	}
	if got := places(); got != "cache on d, web on c" {
		t.Errorf("after the refused update the branch has %s", got)
	}
}
