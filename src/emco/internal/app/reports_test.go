package app_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// clusterAgent reports for a cluster what the stage's branch holds of it, as a monitor does.
type clusterAgent struct {
	*testStage
	host    *plain.Host
	cluster string
	seq     uint64
}

func (s *testStage) agent(cluster string) *clusterAgent {
	a := &clusterAgent{testStage: s, host: plain.New(plain.Options{}), cluster: "edge+" + cluster, seq: 1000}
	s.Cleanup(func() { _ = a.host.Close() })
	return a
}

// report sends a report that all objects of the branch exist in a state.
func (a *clusterAgent) report(state string) {
	a.Helper()
	a.send(a.sees(state))
}

// sees returns the report of a cluster that holds the content of the branch.
func (a *clusterAgent) sees(state string) status.Report {
	a.Helper()
	r := status.Report{Cluster: a.cluster, At: time.Now(), Agent: "monitor/test"}
	a.seq++
	r.Seq = a.seq
	apps := map[string][]status.Object{}
	for _, path := range a.tree() {
		if !strings.HasPrefix(path, "clusters/"+a.cluster+"/context/") || !strings.Contains(path, "/app/") {
			continue
		}
		var o struct {
			Kind     string
			Metadata struct {
				Name, Namespace     string
				Labels, Annotations map[string]string
			}
		}
		a.must("read "+path, yaml.Unmarshal([]byte(a.file(path)), &o))
		label := o.Metadata.Labels[status.DeploymentLabel]
		apps[label] = append(apps[label], status.Object{
			Version: "v1", Kind: o.Kind, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name, Status: state, Content: o.Metadata.Annotations[status.ContentAnnotation],
		})
	}
	for _, label := range slices.Sorted(maps.Keys(apps)) {
		r.Apps = append(r.Apps, status.App{Label: label, Objects: apps[label]})
	}
	return r
}

func (a *clusterAgent) send(r status.Report) {
	a.Helper()
	text, err := status.Encode(r, 0)
	a.must("encode a report", err)
	repo := git.Repo{URL: a.git.URL("fleet"), User: writer, Token: git.Secret(a.token)}
	branch := status.Branch(status.DefaultPrefix, a.cluster)
	head, err := a.host.Head(a.Context(), repo, branch)
	if err != nil {
		head = ""
	}
	_, err = a.host.Replace(a.Context(), repo, branch, head, map[string][]byte{status.File: text}, git.Message{Title: "status"})
	a.must("report", err)
}

// call is what a Git server sends after a push.
func (s *testStage) call(secret string) int {
	s.Helper()
	body := []byte(`{"repository":{"clone_url":"` + s.git.URL("fleet") + `"}}`)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.address+"/v2/webhooks/git", bytes.NewReader(body))
	s.must("make a call", err)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	res, err := http.DefaultClient.Do(r)
	s.must("call", err)
	s.must("end the call", res.Body.Close())
	return res.StatusCode
}

// A cluster that pulls from Git becomes ready and not ready by its agent's reports on a
// branch. A webhook call makes a report known at once. Refused reports change nothing, and
// operators can see them.
func TestWhatAgentsReportReachesTheStatus(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, func(c *config.Config) {
		c.Status.Interval, c.Status.WebhookSecret = config.Duration(time.Second), "of the webhook"
	})
	s.must("let status be replaced", s.bare.Config(t.Context(), "receive.denyNonFastForwards", "false"))
	s.fleet("a", "b")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": {"a", "b"}})
	g.act("instantiate")
	g.becomes("Instantiated")
	s.expect(http.StatusNotFound, "GET", provider+"/clusters/a/monitor", "")

	ready := func(want string) {
		t.Helper()
		s.eventually("readyStatus", func() string { return unless(g.query("?status=ready").ReadyStatus, want) })
	}
	a, b := s.agent("a"), s.agent("b")
	a.report(status.Current)
	b.report(status.Current)
	ready("Ready")
	a.report(status.Failed)
	if got := s.call("of the webhook"); got != http.StatusAccepted {
		t.Errorf("a call of the Git server: status %d", got)
	}
	ready("NotReady")
	a.report(status.Current)
	ready("Ready")

	for secret, want := range map[string]int{"guessed": http.StatusUnauthorized, "": http.StatusUnauthorized} {
		if got := s.call(secret); got != want {
			t.Errorf("a call that is signed with %q: status %d, want %d", secret, got, want)
		}
	}
	a.seq -= 2
	a.report(status.Failed) // a replay
	b.send(status.Report{Cluster: "edge+a", Seq: 5000})
	var note struct {
		Sequence uint64
		Agent    string
		Refused  struct{ Result, Why string }
	}
	for cluster, result := range map[string]string{"a": "replayed", "b": "forged"} {
		s.eventually("the refusal of the report of "+cluster, func() string {
			s.must("read a note", json.Unmarshal([]byte(s.expect(200, "GET", provider+"/clusters/"+cluster+"/monitor", "")), &note))
			if note.Refused.Result != result || note.Refused.Why == "" || note.Agent != "monitor/test" {
				return fmt.Sprintf("the note is %+v, want %s", note, result)
			}
			return ""
		})
		if n := s.metric(`emco_status_documents_total{result="` + result + `"}`); n != "1" {
			t.Errorf("%s documents that were %s, want 1", n, result)
		}
	}
	ready("Ready")

	s.stop()
	s.start()
	ready("Ready")
	g.act("terminate")
	g.becomes("Terminated")
}
