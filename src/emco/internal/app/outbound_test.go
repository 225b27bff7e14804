package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// outbound.denyPrivate refuses servers in private networks when they are registered.
func TestF19PrivateServersAreRefusedBySetting(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, func(c *config.Config) { c.Outbound.DenyPrivate = true })
	s.expect(201, "POST", "cluster-providers", `{"metadata":{"name":"edge"}}`)
	for _, at := range []string{"https://127.0.0.1/u/r", "https://10.1.2.3/u/r", "https://localhost/u/r", "https://100.100.100.200/u/r"} {
		object := fmt.Sprintf(`{"metadata":{"name":"git"},"spec":{"kv":[{"url":%q,"userName":"u","gitToken":"t"}]}}`, at)
		if a := s.do("PUT", "cluster-providers/edge/cluster-sync-objects/git", object); a.Status >= 300 {
			if !strings.Contains(a.Body, "not allowed") {
				t.Errorf("%s: %d %s", at, a.Status, a.Body)
			}
			continue
		}
		cluster := `{"metadata":{"name":"a"},"spec":{"gitOps":{"gitOpsType":"fluxcd","gitOpsReferenceObject":"git","gitOpsResourceObject":""}}}`
		if a := s.register("a", cluster, ""); a.Status < 400 || !strings.Contains(a.Body, "not allowed") {
			t.Errorf("a cluster at %s: %d %s, want a refusal", at, a.Status, a.Body)
		}
	}
}

// What a kubeconfig must not have is refused when it is uploaded.
func TestF75KubeconfigsAreCheckedAtRegistration(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.expect(201, "POST", "cluster-providers", `{"metadata":{"name":"edge"}}`)
	for member, want := range map[string]string{
		`server: "http://10.1.2.3"`:                                "must be https",
		`server: "https://169.254.169.254"`:                        "not allowed",
		`server: "https://[fd00:ec2::254]"`:                        "not allowed",
		`server: "https://10.1.2.3", proxy-url: "http://10.1.1.1"`: "proxy-url is not allowed",
	} {
		kubeconfig := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
			"clusters: [{name: c, cluster: {" + member + "}}]\nusers: [{name: u, user: {token: hunter2}}]\n"
		if a := s.register("b", `{"metadata":{"name":"b"}}`, kubeconfig); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, want) {
			t.Errorf("%s: %d %s, want 400 with %q", member, a.Status, a.Body, want)
		}
	}
}

// register uploads a cluster, with a kubeconfig unless it is empty.
func (s *testStage) register(name, doc, kubeconfig string) apiAnswer {
	s.Helper()
	var files []client.File
	if kubeconfig != "" {
		files = append(files, client.File{Part: client.FilePart, Name: "kubeconfig", Data: []byte(kubeconfig)})
	}
	b, err := client.Multipart([]byte(doc), files...)
	s.must("pack "+name, err)
	return s.send(client.Request{Method: "POST", Path: "cluster-providers/edge/clusters", Body: b})
}
