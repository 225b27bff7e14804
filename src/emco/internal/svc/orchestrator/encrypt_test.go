package orchestrator

import (
	"fmt"
	"strings"
	"testing"

	"filippo.io/age"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

const kubeconfigOfD = `apiVersion: v1
kind: Config
clusters: [{name: d, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: d, user: {token: t}}]
contexts: [{name: d, context: {cluster: d, user: d}}]
current-context: d
`

// chartWithSecret is a chart with a Secret, and a ConfigMap of another content each time.
func (p *controlPlane) chartWithSecret(do, password, other string) {
	p.Helper()
	p.upload(do, name("web"), p.chartOf("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {password: "+password+"}\n"+
		"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {content: "+other+"}\n"))
}

// secretOn returns the Secret of a deployment on a cluster.
func (p *controlPlane) secretOn(g testGroup, cluster v2.ClusterKey) string {
	p.Helper()
	for line := range strings.Lines(p.dataOf(g, cluster)) {
		if strings.Contains(line, `"kind":"Secret"`) {
			return line
		}
	}
	p.Fatalf("%s holds no Secret: %s", cluster, p.dataOf(g, cluster))
	return ""
}

// A policy encrypts Secrets for the clusters that read files, and only for them. Equal Secrets stay equal to the
// byte through later revisions, so Git gets no commit for them. Without recipients nothing is delivered.
func TestH22PoliciesEncryptSecrets(t *testing.T) {
	t.Parallel()
	const planted, app = "planted-password", "projects/shop/composite-apps/till/v1/apps/web"
	p := newControlPlane(t)
	p.fleet("edge", "a", "b")
	p.upload("POST cluster-providers/edge/clusters", name("d"), kubeconfigOfD)
	p.want(201, "POST cluster-providers/edge/clusters/d/labels", `{"clusterLabel":"all"}`)
	p.want(201, "POST "+p.clouds()+"/stores/cluster-references", `{"metadata":{"name":"d"},"spec":{"clusterProvider":"edge","cluster":"d"}}`)
	p.onboard("v1")
	p.chartWithSecret("PUT "+app, planted, "one")
	g := p.group("v1", "g")
	g.make("edge")
	g.acts("approve")
	deliver := func(action string) {
		t.Helper()
		if text := g.want(200, "POST "+g.path()+"/"+action+"?dryRun=true", ""); strings.Contains(text, planted) {
			t.Errorf("the plan shows the value: %s", text)
		}
		g.acts(action)
		p.work()
		p.settle()
	}
	deliver("instantiate")
	if s := p.secretOn(g, "edge+a"); !strings.Contains(s, planted) {
		t.Errorf("without a policy: %s", s)
	}

	p.policy("walls", `{"secrets":"seal"}`)
	f := g.planOf("update").Apps[0].Failure
	if want := "which policy walls encrypts; but cluster edge+a reads files, and its sync objects have no key ageRecipients"; f == nil || f.Stage != "policy" || !strings.Contains(f.Reason, want) {
		t.Errorf("without recipients: %+v", f)
	}

	recipients := func(keys ...string) {
		t.Helper()
		p.want(201, "PUT cluster-providers/edge/cluster-sync-objects/repo", fmt.Sprintf(
			`{"metadata":{"name":"repo"},"spec":{"kv":[{"url":"http://127.0.0.1:1/fleet.git"},{"userName":"emco"},{"gitToken":"t"},{"branch":"main"},{"ageRecipients":%q}]}}`, strings.Join(keys, ", ")))
	}
	first, err := age.GenerateX25519Identity()
	p.must(err)
	second, err := age.GenerateX25519Identity()
	p.must(err)
	recipients(first.Recipient().String())
	deliver("update")
	encrypted := p.secretOn(g, "edge+a")
	if strings.Contains(encrypted, planted) || !strings.Contains(encrypted, `"password":"ENC[AES256_GCM,`) || !strings.Contains(encrypted, first.Recipient().String()) {
		t.Errorf("encrypted: %s", encrypted)
	}
	if p.secretOn(g, "edge+b") != encrypted {
		t.Error("two clusters with equal recipients have different files")
	}
	if s := p.secretOn(g, "edge+d"); !strings.Contains(s, planted) || strings.Contains(s, "ENC[") {
		t.Errorf("on the direct cluster: %s", s)
	}

	p.chartWithSecret("PUT "+app, planted, "two")
	deliver("update")
	if now := p.secretOn(g, "edge+a"); now != encrypted || !strings.Contains(p.dataOf(g, "edge+a"), "two") {
		t.Errorf("an equal Secret was encrypted anew: %s", now)
	}
	p.chartWithSecret("PUT "+app, planted+"-2", "two")
	deliver("update")
	changed := p.secretOn(g, "edge+a")
	if changed == encrypted || strings.Contains(changed, planted) {
		t.Errorf("another Secret: %s", changed)
	}
	recipients(second.Recipient().String(), first.Recipient().String())
	deliver("update")
	if now := p.secretOn(g, "edge+a"); now == changed || !strings.Contains(now, second.Recipient().String()) || strings.Contains(now, planted) {
		t.Errorf("other recipients: %s", now)
	}

	before := p.secretOn(g, "edge+a")
	if a := g.act("rollback", `{"metadata":{},"spec":{"revision":"1"}}`); a.status != 202 {
		t.Fatalf("rollback: %d %s", a.status, a.body)
	}
	p.work()
	p.settle()
	if st := g.status(); !strings.Contains(st.Failure, "revision 1 is not restored: app web has Secrets that are not encrypted, on cluster edge+a, and policy walls wants them encrypted") || p.secretOn(g, "edge+a") != before {
		t.Errorf("a rollback to readable Secrets: %q", st.Failure)
	}
	if a := g.act("rollback", `{"metadata":{},"spec":{"revision":"2"}}`); a.status != 202 {
		t.Fatalf("rollback: %d %s", a.status, a.body)
	}
	p.work()
	p.settle()
	if p.secretOn(g, "edge+a") != encrypted {
		t.Error("a rollback has not brought back what was encrypted then")
	}
}
