package cluster

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
)

// clusterTokens are the secrets of the three identities of a cluster.
type clusterTokens struct{ admin, manager, scheduler string }

func newTokens() clusterTokens {
	return clusterTokens{admin: rand.Text(), manager: rand.Text(), scheduler: rand.Text()}
}

// csv returns the token file of the API server: token, user, id, groups.
func (t clusterTokens) csv() string {
	return fmt.Sprintf("%s,admin,admin,\"system:masters\"\n", t.admin) +
		fmt.Sprintf("%s,system:kube-controller-manager,manager\n", t.manager) +
		fmt.Sprintf("%s,system:kube-scheduler,scheduler\n", t.scheduler)
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: %[1]s
  cluster:
    server: %[2]s
    certificate-authority-data: %[3]s
users:
- name: %[4]s
  user:
    token: %[5]s
contexts:
- name: %[1]s
  context:
    cluster: %[1]s
    user: %[4]s
current-context: %[1]s
`

func (c *Cluster) writeKubeconfigs() error {
	for _, id := range []struct{ path, user, token string }{
		{c.Kubeconfig(), "admin", c.tokens.admin},
		{c.path("kube-controller-manager.kubeconfig"), "kube-controller-manager", c.tokens.manager},
		{c.path("kube-scheduler.kubeconfig"), "kube-scheduler", c.tokens.scheduler},
	} {
		ca := base64.StdEncoding.EncodeToString(c.keys.CA)
		text := fmt.Sprintf(kubeconfig, c.name, c.server, ca, id.user, id.token)
		if err := os.WriteFile(id.path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
