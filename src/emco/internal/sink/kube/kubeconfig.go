package kube

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
)

// maxKubeconfig bounds an uploaded kubeconfig, in bytes.
const maxKubeconfig = 1 << 20

// Check returns the error that Connect would return for a kubeconfig, for use at registration.
func (s *Sink) Check(kubeconfig []byte) error {
	_, err := restConfig(kubeconfig, s.options)
	return err
}

// restConfig returns the configuration for a kubeconfig's current context.
func restConfig(kubeconfig []byte, o Options) (*rest.Config, error) {
	if len(kubeconfig) > maxKubeconfig {
		return nil, errs.E(errs.TooLarge, "read", "kubeconfig", fmt.Errorf("is larger than %d bytes", maxKubeconfig))
	}
	parsed, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, invalidKubeconfig("is not a kubeconfig", nil) // the text of the parser may quote a secret
	}
	if err := check(parsed, o.AllowInsecure); err != nil {
		return nil, err
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*parsed, parsed.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, invalidKubeconfig("is not usable", err)
	}
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(o.QPS, o.Burst) // one for all clients of the cluster
	config.UserAgent = FieldManager
	config.WarningHandler = rest.NoWarnings{}
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return limitedTransport{rt} })
	if o.Wrap != nil {
		config.Wrap(o.Wrap)
	}
	dialer := outbound.Dialer(o.Admit)
	dialer.Timeout, dialer.KeepAlive = min(o.Timeout, outbound.DialTimeout), 30*time.Second
	config.Dial = dialer.DialContext
	return config, nil
}

// check checks what the current context refers to. Other contexts are not used.
func check(c *api.Config, insecure bool) error {
	current := c.Contexts[c.CurrentContext]
	if current == nil {
		return invalidKubeconfig("has no current context", nil)
	}
	cluster, user := c.Clusters[current.Cluster], c.AuthInfos[current.AuthInfo]
	if cluster == nil || user == nil {
		return invalidKubeconfig("lacks the cluster or the user of its current context", nil)
	}
	if err := checkUser(user); err != nil {
		return err
	}
	return checkCluster(cluster, insecure)
}

func checkUser(u *api.AuthInfo) error {
	switch {
	case u.Exec != nil:
		return invalidKubeconfig("runs a program (exec); use a token or a client certificate", nil)
	case u.AuthProvider != nil:
		return invalidKubeconfig("uses an auth-provider; use a token or a client certificate", nil)
	case u.TokenFile != "" || u.ClientCertificate != "" || u.ClientKey != "":
		return invalidKubeconfig("refers to files; put their content into it (kubectl config view --flatten)", nil)
	}
	return nil
}

func checkCluster(c *api.Cluster, insecure bool) error {
	switch {
	case c.CertificateAuthority != "":
		return invalidKubeconfig("refers to files; put their content into it (kubectl config view --flatten)", nil)
	case c.ProxyURL != "":
		return invalidKubeconfig("names a proxy, which is not allowed", nil)
	case c.InsecureSkipTLSVerify && !insecure:
		return invalidKubeconfig("leaves the server's certificate unchecked (insecure-skip-tls-verify), which is not allowed here", nil)
	}
	u, err := url.Parse(c.Server)
	if err != nil || u.Host == "" || u.User != nil {
		return invalidKubeconfig("has no usable server address", nil)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !insecure) {
		return invalidKubeconfig("must name a server by https", nil)
	}
	return nil
}

// invalidKubeconfig returns an Invalid error about a kubeconfig.
func invalidKubeconfig(why string, err error) error {
	cause := errors.New(why)
	if err != nil {
		cause = fmt.Errorf("%s: %w", why, err)
	}
	return errs.E(errs.Invalid, "read", "kubeconfig", cause)
}
