package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/git/gittest"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/scripts/e2e/repo"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
)

const (
	repoName = "fleet"
	branch   = "main"
	writer   = "emco" // the Git user of the orchestrator
	reader   = "flux" // the Git user of clusters, with read access
	group    = "projects/shop/composite-apps/till/v1/deployment-intent-groups/autumn"
)

// testStage is the environment of a test: a folder, a Git server with one repository, and emco.
type testStage struct {
	testing.TB
	dir                     string
	git                     *gittest.Server
	bare                    gittest.Bare
	emco                    *program.Emco
	options                 program.Options
	writeToken, readerToken string
}

// newStage starts everything. It ends with the test, which fails if emco does not end cleanly. The
// repository refuses rewinds and records the heads of its branches.
func newStage(t testing.TB, args ...string) *testStage {
	t.Helper()
	return newStageOf(t, "", args...)
}

// newStageOf starts another program in emco's place.
func newStageOf(t testing.TB, emco string, args ...string) *testStage {
	t.Helper()
	s := &testStage{TB: t, dir: t.TempDir(), writeToken: "w-" + rand.Text(), readerToken: "r-" + rand.Text()}
	var err error
	s.git, err = gittest.Serve(filepath.Join(s.dir, "git"),
		gittest.User{Name: writer, Token: s.writeToken, Write: true}, gittest.User{Name: reader, Token: s.readerToken})
	s.must("serve Git", err)
	t.Cleanup(func() { s.git.Close() })
	s.bare, err = s.git.Seed(t.Context(), repoName, branch)
	s.must("create the repository", err)
	s.must("keep a reflog", s.bare.Config(t.Context(), "core.logAllRefUpdates", "true"))
	s.options = program.Options{Bin: binaries(), Path: emco, Dir: filepath.Join(s.dir, "emco"), Args: args}
	s.start()
	t.Cleanup(s.end)
	return s
}

// binaries is the folder of `make build`; EMCO_BIN overrides it.
func binaries() string {
	if dir := os.Getenv("EMCO_BIN"); dir != "" {
		return dir
	}
	return local("..", "..", "bin")
}

// start runs emco, for the first time or again.
func (s *testStage) start() {
	s.Helper()
	var err error
	s.emco, err = program.Start(s.Context(), s.options)
	s.must("start emco", err)
}

func (s *testStage) end() {
	if s.emco == nil {
		return
	}
	err := s.emco.Exited()
	if err == nil {
		err = s.emco.Stop()
	}
	if err != nil {
		s.Error(err)
	}
	if s.Failed() {
		s.Logf("the end of emco's log:\n%s", program.Tail(s.options.Dir, 40))
	}
}

// fleet returns a client for the clusters and deployments of the running emco.
func (s *testStage) fleet() fleet.Fleet {
	s.Helper()
	f, err := fleet.Open(s.emco.URL())
	s.must("open the API", err)
	return f
}

// fleetBehindProxy registers clusters and a logical cloud. emco reaches the clusters' repository through the proxy.
func (s *testStage) fleetBehindProxy(clusters int) (fleet.Fleet, *proxy) {
	s.Helper()
	repo := s.repository()
	at, err := url.Parse(repo.URL)
	s.must("read the address", err)
	network := newProxy(s, at.Host)
	at.Host = network.address()
	repo.URL = at.String()
	f := s.fleet()
	s.must("register the fleet", f.Found(s.Context(), repo))
	s.must("register clusters", f.Register(s.Context(), clusters))
	s.must("open the logical cloud", f.OpenCloud(s.Context()))
	return f, network
}

func (s *testStage) repository() fleet.Repository {
	return fleet.Repository{URL: s.git.URL(repoName), User: writer, Token: s.writeToken}
}

// ctl runs emcoctl, expects success, and returns its output.
func (s *testStage) ctl(args ...string) string {
	s.Helper()
	r := s.emco.Emcoctl(s.Context(), args...)
	if r.Code != 0 {
		s.Fatalf("emcoctl %s: exit code %d, want 0\n%s%s", strings.Join(args, " "), r.Code, r.Out, r.Err)
	}
	return r.Out
}

// apply applies files of documents with values and returns one line for each document.
func (s *testStage) apply(values string, files ...string) string {
	s.Helper()
	args := []string{"apply", "-o", "human", "-v", values}
	for _, f := range files {
		args = append(args, "-f", f)
	}
	return s.ctl(args...)
}

// delete deletes the documents of files, the last file first.
func (s *testStage) delete(values string, files ...string) {
	s.Helper()
	args := []string{"delete", "-o", "human", "-v", values}
	for _, f := range files {
		args = append(args, "-f", f)
	}
	s.ctl(args...)
}

// clear deletes the documents of files whose deployments have ended. No document may be left.
func (s *testStage) clear(values string, files ...string) {
	s.Helper()
	s.delete(values, files...)
	s.nothing()
}

// nothing fails the test if a document is left.
func (s *testStage) nothing() {
	s.Helper()
	for _, top := range []string{"projects", "cluster-providers", "controllers", "dtc-controllers", "policy/agents"} {
		if got := strings.TrimSpace(s.ctl("get", top, "-o", "json")); got != "[]" {
			s.Errorf("%s are left: %s", top, got)
		}
	}
}

// patience limits waits. No test asserts a time: the limit only ends hangs, also on a busy machine.
const patience = 4 * time.Minute

// wait waits for a goal of a deployment.
func (s *testStage) wait(path, goal string) {
	s.Helper()
	s.ctl("wait", path, "--for="+goal, "--timeout="+patience.String())
}

// status reads a deployment's status, in the clusters' view.
func (s *testStage) status(path string) v2.Status {
	s.Helper()
	var st v2.Status
	out := s.ctl("status", path, "-o", "json")
	s.must("read the status", json.Unmarshal([]byte(out), &st))
	return st
}

// tree lists the files of the branch.
func (s *testStage) tree() map[string]string {
	s.Helper()
	files, err := repo.Tree(s.Context(), s.bare, branch)
	s.must("list the branch", err)
	return files
}

func (s *testStage) head() string {
	s.Helper()
	hash, err := s.bare.Git(s.Context(), "", "rev-parse", "refs/heads/"+branch)
	s.must("read the head", err)
	return hash
}

func (s *testStage) history() []repo.Commit {
	s.Helper()
	all, err := repo.History(s.Context(), s.bare, branch)
	s.must("read the history", err)
	return all
}

// foreign commits files as someone else.
func (s *testStage) foreign(files map[string]string) {
	s.Helper()
	edit := map[string]gittest.File{}
	for path, text := range files {
		edit[path] = gittest.File{Content: text}
	}
	_, err := s.bare.CommitExternal(s.Context(), branch, edit)
	s.must("commit as someone else", err)
}

// terminate terminates a group by emcoctl, and waits until the clusters are empty.
func (s *testStage) terminate(group string, clusters ...*cluster.Cluster) {
	s.Helper()
	s.ctl("apply", group+"/terminate")
	s.wait(group, "terminated")
	for _, c := range clusters {
		empty(s, c)
	}
}

// sound checks the repository: no damage, no rewind, no file in any commit that does not parse (TW-f),
// no empty commit of EMCO.
func (s *testStage) sound() {
	s.Helper()
	s.must("git fsck --strict", s.bare.Fsck(s.Context()))
	bad, moves, err := repo.Rewound(s.Context(), s.bare, branch)
	s.must("read the reflog", err)
	if len(bad) > 0 {
		s.Errorf("the branch was rewound: %d of its %d moves were no fast-forward: %v", len(bad), moves, bad)
	}
	unreadable, err := repo.Unreadable(s.Context(), s.bare, "clusters/")
	s.must("read all files of all commits", err)
	if len(unreadable) > 0 {
		s.Errorf("%d committed files do not parse: %v", len(unreadable), unreadable)
	}
	if twice := repo.Repeated(s.history()); len(twice) > 0 {
		s.Errorf("%d commits of emco changed nothing: %+v", len(twice), twice)
	}
}

// packages packs charts and profiles of the examples and returns their folder.
func (s *testStage) packages(apps ...string) string {
	s.Helper()
	out := filepath.Join(s.dir, "packages")
	cmd := exec.CommandContext(s.Context(), example("pack.sh"), append([]string{out}, apps...)...)
	if text, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("pack.sh: %v: %s", err, text)
	}
	return out
}

// values writes a values file, as JSON, which is also YAML.
func (s *testStage) values(v map[string]any) string {
	s.Helper()
	text, err := json.Marshal(v)
	s.must("write values", err)
	path := filepath.Join(s.dir, "values.yaml")
	s.must("write values", os.WriteFile(path, text, 0o600))
	return path
}

// example returns the path of a file of the examples.
func example(elem ...string) string {
	return local(append([]string{"..", "..", "examples"}, elem...)...)
}

// local returns an absolute path for one in this folder: emcoctl runs in another.
func local(elem ...string) string {
	path, err := filepath.Abs(filepath.Join(elem...))
	if err != nil {
		panic("no working folder: " + err.Error())
	}
	return path
}

func (s *testStage) must(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// eventually retries until there is no error, within patience.
func eventually(t testing.TB, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := program.Poll(ctx, 200*time.Millisecond, try); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// steps prints each part of a test when it begins, and the duration of the previous one.
type steps struct {
	testing.TB
	began time.Time
}

func (s *steps) next(format string, args ...any) {
	took := ""
	if !s.began.IsZero() {
		took = fmt.Sprintf(" (%.1f s)", time.Since(s.began).Seconds())
	}
	s.began = time.Now()
	s.Logf("%s── %s", took, fmt.Sprintf(format, args...))
}
