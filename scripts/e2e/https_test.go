package e2e

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/leak"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
)

// httpsStage is a stage with a cluster that reports over HTTPS, through a gateway.
type httpsStage struct {
	*testStage
	gateway *tlsGateway
	d       fleet.Deployment
	tokens  []leak.Secret // all tokens of the cluster
	mon     *monitorProcess
}

// newPosting starts emco behind a gateway, with Flux on c2 and an app with a hook and a Secret that
// contains a colour.
func newPosting(t *testing.T, l *sharedClusters, colour string) *httpsStage {
	t.Helper()
	p := &httpsStage{testStage: newStage(t, "-log.level", "debug", "-status.stale", "10m"), gateway: newGateway(t)}
	p.gateway.open(t, p.emco.URL())
	l.follow(p.testStage)
	f := p.fleet()
	p.must("register the fleet", f.Found(t.Context(), p.repository()))
	p.must("register", f.RegisterFlux(t.Context(), "c2", p.repository(), map[string]v2.Scalar{
		"statusMode": "https", "syncInterval": "1", "retryInterval": "1", "secretRef": flux.Namespace,
	}))
	p.must("open the cloud", f.OpenCloud(t.Context()))
	p.d = fleet.Deployment{Name: "vaults", Apps: []fleet.App{{Chart: hooked("vault")}}}
	p.must("onboard", f.Onboard(t.Context(), p.dir, p.d))
	p.must("choose a colour", f.Revalue(t.Context(), p.d, p.d.Apps[0].Chart, "colour: "+colour+"\n"))
	return p
}

// file is a file for the monitor.
func (p *httpsStage) file(name string) string { return filepath.Join(p.dir, name) }

func (p *httpsStage) write(name string, text []byte) {
	p.Helper()
	p.must("write a file for the monitor", os.WriteFile(p.file(name), text, 0o600))
}

// token creates a token for the cluster and passes it to its monitor.
func (p *httpsStage) token() {
	p.Helper()
	token := strings.TrimSpace(p.ctl("token", "create", "edge/c2", "--overlap", "0"))
	p.tokens = append(p.tokens, leak.Secret{Name: fmt.Sprintf("token %d", len(p.tokens)+1), Text: token})
	p.write("token", []byte(token+"\n"))
}

// restart restarts emco after kill -9, with other flags if given.
func (p *httpsStage) restart(args ...string) {
	p.Helper()
	p.emco.Kill()
	p.options.Args = append(p.options.Args, args...)
	p.start()
}

// awaitLog waits for a word in the new part of the monitor's log.
func (p *httpsStage) awaitLog(since int, word string) {
	p.Helper()
	eventually(p, "the monitor's log", func() error {
		text, err := os.ReadFile(p.mon.log)
		if err == nil && !strings.Contains(string(text[since:]), word) {
			err = fmt.Errorf("it does not contain %q:\n%s", word, text[since:])
		}
		return err
	})
}

// logLength is the length of the monitor's log.
func (p *httpsStage) logLength() int {
	p.Helper()
	text, err := os.ReadFile(p.mon.log)
	p.must("read the monitor's log", err)
	return len(text)
}

// explain prints the monitor's log, if the test has failed.
func (p *httpsStage) explain() {
	if !p.Failed() {
		return
	}
	text, err := os.ReadFile(p.mon.log)
	p.Logf("the end of the monitor's log (%v):\n%s", err, text[max(0, len(text)-8<<10):])
}

// isReady returns an error that names what is not ready.
func (p *httpsStage) isReady() error {
	st := p.ready(p.d)
	if st.ReadyStatus == v2.Ready && st.DeployedStatus == v2.StatusInstantiated {
		return nil
	}
	text, err := json.Marshal(st.Apps)
	return errors.Join(err, fmt.Errorf("readyStatus is %s, deployedStatus %s: %s", st.ReadyStatus, st.DeployedStatus, text))
}

// clusterStatus is the status of the app on the cluster.
func (p *httpsStage) clusterStatus() v2.ClusterStatus {
	p.Helper()
	for _, app := range p.ready(p.d).Apps {
		for _, c := range app.Clusters {
			return c
		}
	}
	p.Fatal("the status has no app on a cluster")
	return v2.ClusterStatus{}
}

// awaitColour waits until the Secret on the cluster contains a colour.
func (p *httpsStage) awaitColour(l *sharedClusters, colour string) {
	p.Helper()
	eventually(p, "the Secret", func() error {
		got, err := l.c2.Kubectl(p.Context(), "get", "secret", "vault", "-o", `jsonpath={.data.colour}`)
		if err == nil && got != base64.StdEncoding.EncodeToString([]byte(colour)) {
			err = fmt.Errorf("it is %q", got)
		}
		return err
	})
}

// TestMonitorReportsByHTTPS runs the monitor of a real cluster, which reports directly to emco, and
// removes its requirements one by one: trust, emco, the token. Answered reports survive kill -9,
// undelivered reports arrive later, and a cluster with a revoked token becomes stale.
func TestMonitorReportsByHTTPS(t *testing.T) {
	do := steps{TB: t}
	do.next("a cluster with Flux, and a monitor that does not trust the gateway")
	blue, red := "canary-"+rand.Text(), "canary-"+rand.Text()
	l := clustersOf(t)
	p := newPosting(t, l, blue)
	p.token()
	p.write("ca.pem", nil)
	p.mon = p.launch(l.c2, p.account(l.c2), "LOG_LEVEL=debug", "STATUS_MODE=https", "STATUS_URL="+p.gateway.URL,
		"STATUS_TOKEN_FILE="+p.file("token"), "STATUS_CA_FILE="+p.file("ca.pem"))
	t.Cleanup(p.explain)
	p.must("instantiate", p.fleet().Act(t.Context(), p.d.Path(), "instantiate"))
	p.awaitLog(0, "signed by unknown authority")

	do.next("it trusts the gateway: everything becomes Ready, after a hook that only the monitor reports")
	p.write("ca.pem", p.gateway.ca())
	eventually(t, "readiness", p.isReady)
	p.awaitColour(l, blue)
	if c := p.clusterStatus(); len(c.Reconciled) != 40 || c.Stale {
		t.Errorf("reconciled is %q, stale %v, want a commit and no", c.Reconciled, c.Stale)
	}

	do.next("kill -9 of emco: it knows the answered reports before the next report")
	p.gateway.shut()
	last := p.gateway.last
	p.restart()
	eventually(t, "readiness after kill -9", p.isReady)
	if c := p.clusterStatus(); c.LastReport == nil || c.LastReport.Before(last.at.Truncate(time.Second)) {
		t.Errorf("the status dates the last report %v, but emco accepted one after %v", c.LastReport, last.at)
	}

	do.next("kill -9 in the middle of an update that the monitor cannot report")
	p.must("change a value", p.fleet().Revalue(t.Context(), p.d, p.d.Apps[0].Chart, "colour: "+red+"\n"))
	before := p.clusterStatus().Reconciled
	p.must("update", p.fleet().Act(t.Context(), p.d.Path(), "update"))
	eventually(t, "a report about Flux's commit", func() error {
		all := p.gateway.commits()
		if !slices.ContainsFunc(all, func(c string) bool { return c != "" && c != before }) {
			return fmt.Errorf("the commits of reports are %q", all)
		}
		return nil
	})
	p.restart("-status.stale", "8s")
	since := p.logLength()
	p.gateway.open(t, p.emco.URL())
	p.awaitLog(since, "reports arrive again")
	p.awaitColour(l, red)
	eventually(t, "readiness after the update", p.isReady)

	do.next("the token is revoked")
	p.ctl("token", "revoke", "edge/c2", "--all")
	if left := p.ctl("token", "list", "edge/c2"); strings.TrimSpace(left) != "none" {
		t.Errorf("after all tokens were revoked there are:\n%s", left)
	}
	p.awaitLog(since, "401")
	eventually(t, "the status of a cluster with a revoked token", func() error {
		if c := p.clusterStatus(); !c.Stale || p.isReady() == nil {
			return fmt.Errorf("stale is %v, last report %v", c.Stale, c.LastReport)
		}
		return nil
	})

	do.next("it has a new token")
	since = p.logLength()
	p.token()
	p.awaitLog(since, "reports arrive again")
	eventually(t, "readiness with the new token", p.isReady)

	do.next("terminate, and search for secrets")
	states := kubectl(t, l.c2, "get", "resourcebundlestates", "-A", "-o", "yaml")
	p.must("terminate", p.fleet().Act(t.Context(), p.d.Path(), "terminate"))
	p.wait(p.d.Path(), "terminated")
	empty(t, l.c2)
	p.stop(p.mon)
	p.searchSecrets(states, blue, red)
	p.sound()
	do.next("done")
}

// searchSecrets searches for secrets, those of the credentials and the colours of Secrets, in the monitor's log
// and reports; and for tokens in all data of emco.
func (p *httpsStage) searchSecrets(states string, colours ...string) {
	p.Helper()
	secrets := append(slices.Clone(p.tokens), leak.Secret{Name: "write token", Text: p.writeToken}, leak.Secret{Name: "read token", Text: p.readerToken})
	for _, colour := range colours {
		secrets = append(secrets, leak.Secret{Name: "colour", Text: colour})
	}
	all, tokens := leak.NewFinder(secrets...), leak.NewFinder(p.tokens...)
	said, err := os.ReadFile(p.mon.log)
	p.must("read the monitor's log", err)
	log, err := os.ReadFile(program.LogPath(p.options.Dir))
	p.must("read emco's log", err)
	all.Look("reports", p.gateway.said.Bytes())
	all.Look("the monitor's log", said)
	all.Look("emco's log", log)
	all.Look("resource bundle states", []byte(states))
	_, err = tokens.LookIn(p.options.Dir)
	p.must("search emco's data", err)
	for _, f := range []*leak.Finder{all, tokens} {
		leaks, searched := f.Found()
		for _, leaked := range leaks {
			p.Error(leaked)
		}
		p.Logf("searched %.1f MiB: %d leaks", float64(searched)/mib, len(leaks))
	}
}
