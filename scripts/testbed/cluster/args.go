package cluster

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/scripts/testbed/internal/pki"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/process"
)

// controllers are the controllers that work without kubelets and without a cloud.
func controllers() string {
	return strings.Join([]string{
		"deployment-controller", "replicaset-controller", "statefulset-controller", "daemonset-controller",
		"job-controller", "cronjob-controller", "namespace-controller", "garbage-collector-controller",
		"serviceaccount-controller", "serviceaccount-token-controller", "clusterrole-aggregation-controller",
		"root-ca-certificate-publisher-controller", "resourcequota-controller", "endpoints-controller",
		"endpointslice-controller", "certificatesigningrequest-signing-controller",
		"certificatesigningrequest-approving-controller",
	}, ",")
}

// serverArgs returns the arguments of the API server, which keeps its objects in an etcd.
func (c *Cluster) serverArgs(etcd string, port int) []string {
	return []string{
		"--etcd-servers=" + etcd, "--etcd-prefix=/clusters/" + c.name,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		"--cert-dir=" + c.path("certs"), "--tls-cert-file=" + c.keys.ServerCert, "--tls-private-key-file=" + c.keys.Server,
		"--client-ca-file=" + c.keys.CACert, "--token-auth-file=" + c.path("tokens.csv"), "--authorization-mode=RBAC",
		"--service-account-key-file=" + c.keys.Public, "--service-account-signing-key-file=" + c.keys.AccountKey,
		"--service-account-issuer=" + c.server, "--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged=true",
		"--endpoint-reconciler-type=none", "--profiling=false",
		// for servers that extend the API
		"--proxy-client-cert-file=" + c.keys.ProxyCert, "--proxy-client-key-file=" + c.keys.Proxy,
		"--requestheader-client-ca-file=" + c.keys.CACert, "--requestheader-allowed-names=" + pki.ProxyName,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		// No node-lifecycle controller runs that would remove the taint.
		"--disable-admission-plugins=TaintNodesByCondition",
	}
}

// clients are the programs that use the API server. Those of Kubernetes serve no port.
func (c *Cluster) clients() []process.Spec {
	manager := append(c.clientArgs("kube-controller-manager"),
		"--use-service-account-credentials=true", "--service-account-private-key-file="+c.keys.AccountKey,
		"--root-ca-file="+c.keys.CACert, "--cluster-signing-cert-file="+c.keys.CACert,
		"--cluster-signing-key-file="+c.keys.CAKey, "--controllers="+controllers())
	return []process.Spec{
		c.spec("kube-controller-manager", manager),
		c.spec("kube-scheduler", c.clientArgs("kube-scheduler")),
		{
			Name: "kwok", Path: filepath.Join(c.programs.kwok, "kwok"), Dir: c.dir,
			// kwok would read the user's configuration.
			Env: []string{"HOME=" + c.dir, "KWOK_WORKDIR=" + c.path("kwok")},
			Args: []string{
				"--kubeconfig=" + c.Kubeconfig(), "--config=" + filepath.Join(c.programs.kwok, "stages.yaml"),
				"--manage-all-nodes=true",
			},
		},
	}
}

func (c *Cluster) clientArgs(program string) []string {
	config := c.path(program + ".kubeconfig")
	return []string{
		"--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
		"--leader-elect=false", "--secure-port=0",
	}
}

func (c *Cluster) spec(program string, args []string) process.Spec {
	return process.Spec{Name: program, Path: filepath.Join(c.programs.kube, program), Dir: c.dir, Args: args}
}
