package app_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The suite examples/emco/gac with emcoctl, on two clusters that pull from Git: patches of every
// kind, new objects, and values that differ by cluster. An update changes one class alone, and
// nothing is left at the end.
func TestTheGenericActionController(t *testing.T) {
	t.Parallel()
	bin := emcoctl(t)
	s := newStage(t)
	examples, err := filepath.Abs("../../../../examples")
	s.must("find the examples", err)
	work := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "HOME="+work, "EMCO_URL="+s.address)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	ctl := func(args ...string) string { t.Helper(); return run(filepath.Join(bin, "emcoctl"), args...) }
	values, err := json.Marshal(map[string]string{
		"GitURL": s.git.URL("fleet"), "GitUser": writer, "GitToken": s.token, "Kubeconfig": "", "FluxSecret": "",
		"Packages": filepath.Join(work, "packages"), "Files": filepath.Join(examples, "emco/gac/files"),
	})
	s.must("write the values", err)
	s.must("write the values", os.WriteFile(filepath.Join(work, "values.yaml"), values, 0o600))
	file := func(name string) string { return filepath.Join(examples, "emco/gac", name) }
	const group = "projects/shop/composite-apps/till/v1/deployment-intent-groups/autumn"

	run(filepath.Join(examples, "pack.sh"), filepath.Join(work, "packages"), "web")
	documents := []string{"apply", "-v", "values.yaml", "-f", file("00-clusters.yaml"), "-f", file("01-app.yaml"), "-f", file("02-deployment.yaml"), "-f", file("03-customizations.yaml")}
	ctl(documents...)
	ctl("apply", group+"/approve")
	plan := s.expect(200, "POST", group+"/instantiate?dryRun=true", "")
	for _, part := range []string{"NetworkPolicy", "store-settings", "till-key"} {
		if !strings.Contains(plan, part) {
			t.Errorf("the plan lacks %s:\n%s", part, plan)
		}
	}
	ctl("apply", "-f", file("04-instantiate.yaml"))
	ctl("wait", group, "--for=instantiated")
	id := s.contextOf(group)
	path := func(cluster, object string) string {
		return "clusters/edge+" + cluster + "/context/" + id + "/app/web/" + object + ".yaml"
	}
	has := func(cluster, object string, parts ...string) {
		t.Helper()
		text := s.file(path(cluster, object))
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s on %s lacks %s:\n%s", object, cluster, part, text)
			}
		}
	}
	has("c1", "r1-web+Deployment", "replicas: 3")
	has("c2", "r1-web+Deployment", "replicas: 0", "size: small", "name: CLOSED", "containerPort: 8080")
	has("c1", "store-settings+ConfigMap", "currency = EUR", "zone: north", "emco/deployment-id: "+id+"-web")
	has("c2", "store-settings+ConfigMap", "currency = EUR", "zone: south")
	has("c2", "till-key+Secret", "key: bm90LWEtcmVhbC1rZXk=")
	has("c1", "web+NetworkPolicy", "podSelector")
	has("c1", "r1-web+ConfigMap", "Welcome to the north")
	has("c2", "r1-web+ConfigMap", "Closed for the winter")
	if tree := strings.Join(s.tree(), "\n"); strings.Contains(tree, path("c2", "web+NetworkPolicy")) {
		t.Errorf("c2 has the NetworkPolicy of c1:\n%s", tree)
	}

	before := s.file(path("c2", "r1-web+Deployment"))
	if again := ctl(documents...); strings.Contains(again, "created") {
		t.Errorf("a second apply makes documents:\n%s", again)
	}
	ctl("apply", "-f", file("05-update.yaml"))
	ctl("wait", group, "--for=instantiated")
	has("c1", "r1-web+Deployment", "replicas: 4")
	if s.file(path("c2", "r1-web+Deployment")) != before {
		t.Error("the update of large clusters changes c2")
	}
	ctl("delete", "-f", file("04-instantiate.yaml"))
	ctl("wait", group, "--for=terminated")
	s.wantTree()
}

// contextOf returns the id of a deployment in Git paths.
func (s *testStage) contextOf(group string) string {
	s.Helper()
	var status struct {
		States struct{ StatusCtxID string }
	}
	s.must("read the status", json.Unmarshal([]byte(s.expect(200, "GET", group+"/status?status=deployed", "")), &status))
	return status.States.StatusCtxID
}
