package app_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The controller of examples/04-controller is another process: EMCO calls it, and carries out its
// edits. When it is gone, updates are refused and nothing changes.
func TestAControllerInAnotherProcess(t *testing.T) {
	t.Parallel()
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
	end := func() {
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
	_, port, err := net.SplitHostPort(strings.TrimPrefix(strings.TrimSpace(line), "listening on "))
	if err != nil {
		t.Fatalf("the controller says %q: %v", line, err)
	}

	s := newStage(t)
	s.fleet("a", "b", "c")
	s.expect(201, "POST", provider+"/clusters/a/labels", `{"clusterLabel":"region-north"}`)
	s.expect(201, "POST", provider+"/clusters/b/labels", `{"clusterLabel":"region-south"}`)
	s.onboard("web")
	s.expect(201, "POST", "controllers", `{"metadata":{"name":"regions"},"spec":{"host":"127.0.0.1","port":`+port+`,"type":"action","priority":1}}`)
	g := s.group("autumn", appPlaces{"web": nil})
	s.expect(201, "POST", g.path+"/intents", `{"metadata":{"name":"regions"},"spec":{"intent":{"regions":"region"}}}`)
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
