package e2e

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/git/gittest"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
)

// edge is the Git user of monitors, which may write status and nothing else.
const edge = "edge-monitor"

// monitorStage is a stage on which clusters have monitors.
type monitorStage struct {
	*testStage
	edgeToken string
}

// newWatched starts a Git server that restricts monitors to branches of status, and emco, which polls
// these often.
func newWatched(t testing.TB, args ...string) monitorStage {
	t.Helper()
	s := &testStage{TB: t, dir: t.TempDir(), writeToken: "w-" + rand.Text(), readerToken: "r-" + rand.Text()}
	w := monitorStage{s, "e-" + rand.Text()}
	var err error
	s.git, err = gittest.Serve(filepath.Join(s.dir, "git"),
		gittest.User{Name: writer, Token: s.writeToken, Write: true}, gittest.User{Name: reader, Token: s.readerToken},
		gittest.User{Name: edge, Token: w.edgeToken, Write: true, Only: "refs/heads/" + status.DefaultPrefix})
	s.must("serve Git", err)
	t.Cleanup(func() { s.git.Close() })
	s.bare, err = s.git.Seed(t.Context(), repoName, branch)
	s.must("make the repository", err)
	s.must("keep a reflog", s.bare.Config(t.Context(), "core.logAllRefUpdates", "true"))
	s.must("let monitors replace status branches", s.bare.Config(t.Context(), "receive.denyNonFastForwards", "false"))
	s.options = program.Options{Bin: binaries(), Dir: filepath.Join(s.dir, "emco"), Args: append(args, "-status.interval", "1s")}
	s.start()
	t.Cleanup(s.end)
	return w
}

// account installs the monitor on a cluster as it ships, and returns a kubeconfig with exactly the
// rights of its account.
func (s *testStage) account(c *cluster.Cluster) string {
	s.Helper()
	shipped := local("..", "..", "deployments", "monitor")
	kubectl(s, c, "apply", "-f", shipped)
	kubectl(s, c, "-n", "emco-monitor", "delete", "deployment", "emco-monitor", "--wait=false") // its image does not exist
	token := kubectl(s, c, "-n", "emco-monitor", "create", "token", "emco-monitor")
	var config map[string]any
	s.must("read the kubeconfig", json.Unmarshal([]byte(kubectl(s, c, "config", "view", "--raw", "-o", "json")), &config))
	for _, user := range config["users"].([]any) {
		user.(map[string]any)["user"] = map[string]any{"token": strings.TrimSpace(token)}
	}
	text, err := json.Marshal(config)
	s.must("write a kubeconfig", err)
	path := filepath.Join(s.dir, c.Name()+".monitor.kubeconfig")
	s.must("write a kubeconfig", os.WriteFile(path, text, 0o600))
	return path
}

// monitorProcess is the program, running for one cluster.
type monitorProcess struct {
	cmd  *exec.Cmd
	done chan struct{}
	log  string
	err  error // its result; read it after done
}

// monitor runs the monitor of a cluster, which reports through Git.
func (w monitorStage) monitor(c *cluster.Cluster, kubeconfig string) *monitorProcess {
	w.Helper()
	return w.launch(c, kubeconfig, "GIT_URL="+w.git.URL(repoName), "GIT_USERNAME="+edge, "GIT_TOKEN="+w.edgeToken)
}

// launch runs the monitor of a cluster, with variables that configure its reports, until the test ends
// or ends the monitor.
func (s *testStage) launch(c *cluster.Cluster, kubeconfig string, how ...string) *monitorProcess {
	s.Helper()
	m := &monitorProcess{done: make(chan struct{}), log: filepath.Join(s.dir, "monitor-"+c.Name()+".log")}
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	s.must("open a log", err)
	defer log.Close()
	m.cmd = exec.Command(filepath.Join(binaries(), "monitor"), "-kubeconfig", kubeconfig,
		"-status.interval", "500ms", "-status.heartbeat", "2s", "-alive.file", filepath.Join(s.dir, "alive-"+c.Name()))
	m.cmd.Env = append(append(os.Environ(), "GIT_CLUSTERNAME=edge+"+c.Name()), how...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel treats this thread as the parent
		defer runtime.UnlockOSThread()
		defer close(m.done)
		err := m.cmd.Start()
		started <- err
		if err == nil {
			m.err = m.cmd.Wait()
		}
	}()
	s.must("start the monitor (was it built? make build)", <-started)
	s.Cleanup(func() { m.kill() })
	return m
}

// kill ends the monitor as kill -9 does.
func (m *monitorProcess) kill() {
	_ = m.cmd.Process.Kill() // it may have ended already
	<-m.done
}

// stop ends the monitor by SIGTERM, and checks its exit and that it had no open port.
func (s *testStage) stop(m *monitorProcess) {
	s.Helper()
	if ports := listening(m.cmd.Process.Pid); len(ports) > 0 {
		s.Errorf("the monitor listens on %v", ports)
	}
	memory, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
	for line := range strings.Lines(string(memory)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "VmHWM") {
			s.Logf("the monitor's memory: %s", strings.TrimSpace(line))
		}
	}
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.done:
	case <-time.After(patience):
		m.kill()
		s.Error("the monitor does not end by SIGTERM")
	}
	if m.err != nil {
		log, _ := os.ReadFile(m.log)
		s.Errorf("the monitor ends with %v; its log:\n%s", m.err, log)
	}
}

// listening returns the listening sockets of a process.
func listening(pid int) []string {
	own := map[string]bool{}
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	for _, e := range entries {
		if link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, e.Name())); err == nil && strings.HasPrefix(link, "socket:[") {
			own[strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")] = true
		}
	}
	var out []string
	for _, table := range []string{"tcp", "tcp6"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" && own[f[9]] {
				out = append(out, f[1])
			}
		}
	}
	return out
}

// lastReport reads the last report of a cluster.
func (w monitorStage) lastReport(c *cluster.Cluster) (status.Report, error) {
	text, err := w.bare.Show(w.Context(), status.Branch(status.DefaultPrefix, "edge+"+c.Name()), status.File)
	if err != nil {
		return status.Report{}, err
	}
	return status.Decode([]byte(text))
}

// awaitReport waits until a cluster reports exactly these apps with their objects: "<label>
// <name>=<status>".
func (w monitorStage) awaitReport(c *cluster.Cluster, want ...string) status.Report {
	w.Helper()
	var last status.Report
	eventually(w, "report of "+c.Name(), func() error {
		r, err := w.lastReport(c)
		if err != nil {
			return err
		}
		var got []string
		for _, a := range r.Apps {
			for _, o := range a.Objects {
				if o.Kind != "CustomResourceDefinition" { // objects of other tests stay
					got = append(got, a.Label+" "+o.Name+"="+o.Status)
				}
			}
		}
		if last = r; !slices.Equal(got, want) {
			return fmt.Errorf("report %d contains %q, want %q", r.Seq, got, want)
		}
		return nil
	})
	return last
}

// hooked is a chart with a pre-install hook, and a Secret with the chart's name.
func hooked(name string) fleet.Chart {
	return fleet.Synthetic(name, 3).
		With("templates/hook.yaml", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: prepare, annotations: {helm.sh/hook: \"pre-install,pre-upgrade\"}}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n").
		With("templates/secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: "+name+"}\nstringData: {colour: {{ .Values.colour | quote }}}\n")
}

// A pull-mode cluster with Flux becomes Ready in the status: its monitor watches the objects and Flux,
// reports to its branch, and emco accepts the report. When the monitor is silent, nothing stays green.
func TestMonitorBringsGitClustersToReady(t *testing.T) {
	do := steps{TB: t}
	do.next("two API servers, Flux and a monitor on the second")
	l, s := clustersOf(t), newWatched(t, "-status.stale", "15s")
	l.follow(s.testStage)
	kubeconfig := s.account(l.c2)
	m := s.monitor(l.c2, kubeconfig)

	do.next("the documents in examples/02-kube-and-flux, approve, instantiate")
	values := loopValues(s.testStage, l)
	s.apply(values, loopFiles(append(slices.Clone(loopDocs), loopStart)...)...)
	s.wait(group, "instantiated")

	do.next("all objects on both clusters are Ready")
	eventually(t, "readyStatus", func() error { return s.readyEverywhere() })
	for _, app := range s.status(group).Apps {
		for _, c := range app.Clusters {
			if c.Cluster == "c2" && (len(c.Reconciled) != 40 || c.LastReport == nil || c.Stale) {
				t.Errorf("%s on c2: reconciled %q, last report %v, stale %v; want a commit and a time", app.Name, c.Reconciled, c.LastReport, c.Stale)
			}
		}
	}
	if out, err := l.c2.Kubectl(t.Context(), "get", "resourcebundlestates", "-A", "-o", `jsonpath={range .items[*]}{.metadata.name}={.status.ready} {end}`); err != nil || strings.Count(out, "=true") < 2 {
		t.Errorf("resource bundle states are %q, %v, want one for each app on c2, ready", out, err)
	}
	s.checkNoSecrets("the branch of c2", l.c2)

	do.next("the monitor stops: its last report becomes stale")
	s.stop(m)
	eventually(t, "the status of a silent cluster", func() error {
		if err := s.readyEverywhere(); err == nil {
			return errors.New("the status is still Ready")
		}
		for _, app := range s.status(group).Apps {
			for _, c := range app.Clusters {
				if c.Cluster == "c2" && !c.Stale {
					return fmt.Errorf("%s on c2 is not stale", app.Name)
				}
			}
		}
		return nil
	})

	do.next("the monitor is back")
	m = s.monitor(l.c2, kubeconfig)
	eventually(t, "readyStatus", func() error { return s.readyEverywhere() })

	do.next("terminate")
	s.ctl("delete", "-o", "human", "-v", values, "-f", loopFiles(loopStart)[0])
	s.wait(group, "terminated")
	empty(t, l.c1)
	empty(t, l.c2)
	eventually(t, "the report of c2 contains only definitions, which stay", func() error {
		r, err := s.lastReport(l.c2)
		for _, a := range r.Apps {
			for _, o := range a.Objects {
				if o.Kind != "CustomResourceDefinition" {
					err = errors.Join(err, fmt.Errorf("%s %s is %s", o.Kind, o.Name, o.Status))
				}
			}
		}
		return err
	})
	s.stop(m)
	s.sound()
	do.next("done")
}

// On a pull-mode cluster hooks run in order, although only the monitor reports that they are done. A
// Secret counts although the monitor may not read it. The status shows what the API server refuses, and
// everything else stays Ready throughout.
func TestMonitorReportsHooksSecretsAndRefusals(t *testing.T) {
	do := steps{TB: t}
	do.next("Flux and a monitor; an app with a hook and a Secret")
	l, s := clustersOf(t), newWatched(t)
	l.follow(s.testStage)
	m := s.monitor(l.c2, s.account(l.c2))
	s.apply(loopValues(s.testStage, l), loopFiles("00-clusters.yaml", "01-app.yaml")...)
	vault := hooked("vault")
	d := fleet.Deployment{Name: "vaults", Apps: []fleet.App{{Chart: vault, Intent: on("c2")}}}
	s.must("onboard", s.fleet().Onboard(t.Context(), s.dir, d))
	s.must("instantiate", s.fleet().Act(t.Context(), d.Path(), "instantiate"))
	ready := func() error {
		if st := s.ready(d); st.ReadyStatus != v2.Ready || st.DeployedStatus != v2.StatusInstantiated {
			text, err := json.Marshal(st.Apps)
			return errors.Join(err, fmt.Errorf("readyStatus is %s, deployedStatus %s: %s", st.ReadyStatus, st.DeployedStatus, text))
		}
		return nil
	}
	eventually(t, "readiness", ready)

	do.next("an update that changes the Secret")
	s.must("change a value", s.fleet().Revalue(t.Context(), d, vault, "colour: canary-red\n"))
	s.must("update", s.fleet().Act(t.Context(), d.Path(), "update"))
	eventually(t, "the Secret", func() error {
		if got := kubectl(t, l.c2, "get", "secret", "vault", "-o", `jsonpath={.data.colour}`); got != base64.StdEncoding.EncodeToString([]byte("canary-red")) {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
	eventually(t, "readiness after the update", ready)
	s.checkNoSecrets("the branch of c2", l.c2)

	do.next("an app that the API server refuses")
	bad := fleet.Synthetic("bad", 2).With("templates/refused.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: refused}\nspec: {ports: [{port: 99999}]}\n")
	b := fleet.Deployment{Name: "broken", Apps: []fleet.App{{Chart: bad, Intent: on("c2")}}}
	s.must("onboard", s.fleet().Onboard(t.Context(), s.dir, b))
	s.must("instantiate", s.fleet().Act(t.Context(), b.Path(), "instantiate"))
	eventually(t, "the refusal in the status", func() error {
		if err := ready(); err != nil { // Flux checks again at each commit
			t.Errorf("the other deployment: %v", err)
		}
		st := s.ready(b)
		for _, app := range st.Apps {
			for _, c := range app.Clusters {
				for _, r := range c.Resources {
					if r.Name == "refused" && r.ReadyStatus != v2.Ready && strings.Contains(r.Reason, "Kustomization") && strings.Contains(r.Reason, "99999") {
						return nil
					}
				}
			}
		}
		text, err := json.Marshal(st.Apps)
		return errors.Join(err, fmt.Errorf("the status does not contain it: %s", text))
	})

	do.next("terminate")
	for _, path := range []string{d.Path(), b.Path()} {
		s.must("terminate", s.fleet().Act(t.Context(), path, "terminate"))
		s.wait(path, "terminated")
	}
	empty(t, l.c2)
	s.stop(m)
	do.next("done")
}

// readyEverywhere returns an error that names what is not Ready in the status.
func (w monitorStage) readyEverywhere() error {
	w.Helper()
	st := w.status(group)
	for _, app := range st.Apps {
		for _, c := range app.Clusters {
			for _, r := range c.Resources {
				if r.ReadyStatus != v2.Ready {
					return fmt.Errorf("%s on %s: %s %s is %s: %s", app.Name, c.Cluster, r.GVK.Kind, r.Name, r.ReadyStatus, r.Reason)
				}
			}
		}
	}
	if st.ReadyStatus != v2.Ready {
		return fmt.Errorf("readyStatus of the whole is %q", st.ReadyStatus)
	}
	return nil
}

// checkNoSecrets checks that a report contains nothing that must not leave the cluster.
func (w monitorStage) checkNoSecrets(what string, c *cluster.Cluster) {
	w.Helper()
	text, err := w.bare.Show(w.Context(), status.Branch(status.DefaultPrefix, "edge+"+c.Name()), status.File)
	w.must("read "+what, err)
	for _, secret := range []string{w.edgeToken, w.writeToken, w.readerToken, "canary-", base64.StdEncoding.EncodeToString([]byte("canary-red"))} {
		if strings.Contains(text, secret) {
			w.Errorf("%s contains a secret", what)
		}
	}
}

func TestConformance14MonitorRestartKeepsOthersStatusAndEdgeCannotWriteDesiredState(t *testing.T) {
	do := steps{TB: t}
	do.next("two clusters with two apps each; both report to one repository")
	l, s := clustersOf(t), newWatched(t)
	kubeconfigs := map[*cluster.Cluster]string{}
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		for _, name := range []string{"db", "web"} {
			kubectl(t, c, "create", "configmap", name)
			kubectl(t, c, "label", "configmap", name, deploymentLabel+"=7-"+name)
		}
		kubeconfigs[c] = s.account(c)
	}
	first, second := s.monitor(l.c1, kubeconfigs[l.c1]), s.monitor(l.c2, kubeconfigs[l.c2])
	before := s.awaitReport(l.c1, "7-db db=Current", "7-web web=Current")
	other := s.awaitReport(l.c2, "7-db db=Current", "7-web web=Current")

	do.next("kill the monitor of c1, remove an object, start the monitor again")
	first.kill()
	kubectl(t, l.c1, "delete", "configmap", "web")
	first = s.monitor(l.c1, kubeconfigs[l.c1])
	after := s.awaitReport(l.c1, "7-db db=Current")
	if after.Seq <= before.Seq {
		t.Errorf("the sequence of c1 went from %d to %d", before.Seq, after.Seq)
	}
	if now := s.awaitReport(l.c2, "7-db db=Current", "7-web web=Current"); now.Seq < other.Seq {
		t.Errorf("the sequence of c2 went from %d to %d", other.Seq, now.Seq)
	}
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		ref := status.Branch(status.DefaultPrefix, "edge+"+c.Name())
		if n, err := s.bare.Git(t.Context(), "", "rev-list", "--count", ref); err != nil || n != "1" {
			t.Errorf("branch %s has %s commits, %v, want one", ref, n, err)
		}
	}

	do.next("the monitor's credential cannot write desired state")
	head := s.head()
	for _, to := range []string{"main", "clusters/edge+c1"} {
		if out, err := s.tryPush(to); err == nil || !strings.Contains(out, edge+" may not push") {
			t.Errorf("push to %s: %v, want a refusal:\n%s", to, err, out)
		}
	}
	if now := s.head(); now != head {
		t.Errorf("the branch moved from %s to %s", head, now)
	}
	if out, err := s.tryPush(status.DefaultPrefix + "test"); err != nil {
		t.Errorf("push of status: %v\n%s", err, out)
	}
	s.stop(first)
	s.stop(second)
	s.must("git fsck --strict", s.bare.Fsck(t.Context()))
	do.next("done")
}

// tryPush tries to write to a branch with the credential of a monitor, as an attacker could after taking a
// cluster over.
func (w monitorStage) tryPush(to string) (string, error) {
	w.Helper()
	dir, err := os.MkdirTemp(w.dir, "push-")
	w.must("make a folder", err)
	address := strings.Replace(w.git.URL(repoName), "://", "://"+edge+":"+w.edgeToken+"@", 1)
	script := `git clone -q "$1" . && echo evil >evil && git add evil && git commit -q -m evil && git push -q origin "HEAD:refs/heads/$2"`
	cmd := exec.CommandContext(w.Context(), "sh", "-c", script, "push", address, to)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=e", "GIT_AUTHOR_EMAIL=e@localhost", "GIT_COMMITTER_NAME=e", "GIT_COMMITTER_EMAIL=e@localhost")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestMonitorPackageOnARealCluster runs the tests of the monitor that need a cluster, and skip without
// one.
func TestMonitorPackageOnARealCluster(t *testing.T) {
	l := clustersOf(t)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "./internal/agent")
	cmd.Dir = local("..", "..", "src", "monitor")
	cmd.Env = append(os.Environ(), "EMCO_TEST_KUBECONFIG="+l.c1.Kubeconfig(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "--- SKIP") {
		t.Fatalf("%v, or tests were skipped although there is a cluster:\n%s", err, out)
	}
	t.Logf("%d tests passed", strings.Count(string(out), "--- PASS"))
}
