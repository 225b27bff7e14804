package app_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// exampleSuite is a suite of examples/emco, whose files emcoctl sends. Its group is "autumn".
type exampleSuite struct {
	*testStage
	bin, examples, name, work string
}

const suiteGroup = "projects/shop/composite-apps/till/v1/deployment-intent-groups/autumn"

// newExampleSuite packs apps and writes values.yaml for clusters that pull from Git.
func newExampleSuite(t *testing.T, name string, apps ...string) *exampleSuite {
	t.Helper()
	return newExampleSuiteOn(newStage(t), name, nil, apps...)
}

// newExampleSuiteOn is the same on a stage, with more values.
func newExampleSuiteOn(s *testStage, name string, more map[string]string, apps ...string) *exampleSuite {
	s.Helper()
	e := &exampleSuite{testStage: s, bin: emcoctl(s.T), name: name, work: s.TempDir()}
	var err error
	e.examples, err = filepath.Abs("../../../../examples")
	e.must("find the examples", err)
	all := map[string]string{
		"HostIP": "127.0.0.1", "GitURL": e.git.URL("fleet"), "GitUser": writer, "GitToken": e.token, "Kubeconfig": "", "FluxSecret": "",
		"Packages": filepath.Join(e.work, "packages"), "Files": e.file("files"),
	}
	maps.Copy(all, more)
	values, err := json.Marshal(all)
	e.must("write the values", err)
	e.must("write the values", os.WriteFile(filepath.Join(e.work, "values.yaml"), values, 0o600))
	e.run(filepath.Join(e.examples, "pack.sh"), append([]string{filepath.Join(e.work, "packages")}, apps...)...)
	return e
}

// file returns the path of a file of the suite.
func (e *exampleSuite) file(name string) string {
	return filepath.Join(e.examples, "emco", e.name, name)
}

func (e *exampleSuite) run(name string, args ...string) string {
	e.Helper()
	cmd := exec.CommandContext(e.Context(), name, args...)
	cmd.Dir = e.work
	cmd.Env = append(os.Environ(), "HOME="+e.work, "EMCO_URL="+e.address)
	out, err := cmd.CombinedOutput()
	if err != nil {
		e.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (e *exampleSuite) ctl(args ...string) string {
	e.Helper()
	return e.run(filepath.Join(e.bin, "emcoctl"), args...)
}

// apply applies files of the suite.
func (e *exampleSuite) apply(files ...string) string {
	e.Helper()
	args := []string{"apply", "-v", "values.yaml"}
	for _, f := range files {
		args = append(args, "-f", e.file(f))
	}
	return e.ctl(args...)
}

// remove deletes the documents of files of the suite.
func (e *exampleSuite) remove(files ...string) {
	e.Helper()
	args := []string{"delete", "-v", "values.yaml"}
	for _, f := range files {
		args = append(args, "-f", e.file(f))
	}
	e.ctl(args...)
}

// end terminates the suite's group, its logical cloud, and deletes its documents. Nothing may be left.
func (e *exampleSuite) end(cloud string, files ...string) {
	e.Helper()
	e.ctl("apply", suiteGroup+"/terminate")
	e.ctl("wait", suiteGroup, "--for=terminated")
	e.remove("03-deployment-intent.yaml")
	e.ctl("apply", "projects/shop/logical-clouds/"+cloud+"/terminate")
	e.ctl("wait", "projects/shop/logical-clouds/"+cloud, "--for=terminated")
	e.clear(files...)
}

// clear deletes the documents of files whose deployments have ended. Nothing may be left, neither of documents nor in Git.
func (e *exampleSuite) clear(files ...string) {
	e.Helper()
	e.remove(files...)
	e.wantTree()
	for _, top := range []string{"projects", "cluster-providers", "controllers", "dtc-controllers", "policy/agents"} {
		if left := strings.TrimSpace(e.expect(200, "GET", top, "")); left != "[]" {
			e.Errorf("%s are left: %s", top, left)
		}
	}
}

// delivered returns the path in Git of an object of an app on a cluster.
func (e *exampleSuite) delivered(cluster, app, object string) string {
	e.Helper()
	return "clusters/edge+" + cluster + "/context/" + e.contextOf(suiteGroup) + "/app/" + app + "/" + object + ".yaml"
}

// has fails the test unless an object in Git has all parts.
func (e *exampleSuite) has(cluster, app, object string, parts ...string) {
	e.Helper()
	text := e.testStage.file(e.delivered(cluster, app, object))
	for _, part := range parts {
		if !strings.Contains(text, part) {
			e.Errorf("%s of %s on %s lacks %s:\n%s", object, app, cluster, part, text)
		}
	}
}
