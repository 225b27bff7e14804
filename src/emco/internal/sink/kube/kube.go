// Package kube applies the objects of apps to a cluster through its API server.
//
//	definitions ──served──► namespaces ──► other objects ──all applied──► prune
//
// It uses server-side apply. Objects that the app no longer has are deleted last, and only
// if all desired objects were applied.
//
// It also has the cluster sign certificates of users, makes kubeconfigs with these, and reads
// what the nodes have free and what issuers of cert-manager signed.
package kube

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/kubehealth/capacity"
)

// FieldManager is our field manager in server-side apply.
const FieldManager = "emco"

// Options limit the requests to a cluster.
type Options struct {
	QPS           float32       // requests a second to one cluster
	Burst         int           // requests above that rate
	Timeout       time.Duration // of one request
	CRDTimeout    time.Duration // from applying definitions until they are served
	AllowInsecure bool          // allow clusters without a verified certificate

	Admit func(netip.Addr) error // refuses addresses that must not be dialled; nil: those of metadata services

	Wrap func(http.RoundTripper) http.RoundTripper // around the transport to a cluster; nil for nothing
}

// Default returns options for production.
func Default() Options {
	return Options{QPS: 50, Burst: 100, Timeout: 30 * time.Second, CRDTimeout: time.Minute}
}

// Sink connects to clusters.
type Sink struct{ options Options }

// New returns a sink. Zero members of o take the value of Default.
func New(o Options) *Sink {
	d := Default()
	if o.QPS == 0 {
		o.QPS = d.QPS
	}
	if o.Burst == 0 {
		o.Burst = d.Burst
	}
	if o.Timeout == 0 {
		o.Timeout = d.Timeout
	}
	if o.CRDTimeout == 0 {
		o.CRDTimeout = d.CRDTimeout
	}
	if o.Admit == nil {
		o.Admit = outbound.Policy{}.Check
	}
	return &Sink{o}
}

// Cluster is a connection to one cluster. Several goroutines may use it. It caches the kinds
// that the cluster serves.
type Cluster struct {
	host        string
	config      *rest.Config // read-only
	options     Options
	client      *http.Client
	discovery   discovery.DiscoveryInterfaceWithContext
	mapper      *restmapper.DeferredDiscoveryRESTMapper
	metadata    metadata.Interface // reads and patches objects without receiving their content
	dynamic     dynamic.Interface
	watchClient dynamic.Interface
}

// Connect returns a connection by a kubeconfig. It sends no request. A kubeconfig that runs
// programs, reads files or skips the check of the certificate is Invalid: users upload
// kubeconfigs, and must not control this process.
func (s *Sink) Connect(kubeconfig []byte) (*Cluster, error) {
	config, err := restConfig(kubeconfig, s.options)
	if err != nil {
		return nil, err
	}
	return connect(config, s.options)
}

// connect returns a connection by a configuration that was checked.
func connect(config *rest.Config, o Options) (*Cluster, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, invalidKubeconfig("is not usable", err)
	}
	client.CheckRedirect = outbound.WithinServer // the transport adds the token to each request, wherever it goes
	c := &Cluster{host: config.Host, config: config, options: o, client: client}
	if c.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(config, client); err != nil {
		return nil, invalidKubeconfig("is not usable", err)
	}
	if c.metadata, err = metadata.NewForConfigAndClient(config, client); err != nil {
		return nil, invalidKubeconfig("is not usable", err)
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, client); err != nil {
		return nil, invalidKubeconfig("is not usable", err)
	}
	if c.watchClient, err = dynamic.NewForConfigAndClient(withoutRateLimit(config), client); err != nil {
		return nil, invalidKubeconfig("is not usable", err)
	}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapperWithContext(memory.NewMemCacheClientWithContext(c.discovery))
	return c, nil
}

// withoutRateLimit returns config without the limit on requests. Watches are few, and must
// not wait for objects that are being applied.
func withoutRateLimit(config *rest.Config) *rest.Config {
	out := rest.CopyConfig(config)
	out.RateLimiter, out.QPS = nil, -1
	return out
}

// Host returns the URL of the API server.
func (c *Cluster) Host() string { return c.host }

// Reach requests the version of the cluster. The error is the reason why there is no answer.
func (c *Cluster) Reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	_, err := c.discovery.ServerVersionWithContext(ctx)
	return Classify("reach", c.host, err)
}

// WatchClient returns a client without a limit on requests, and the mapping of the kinds that
// the cluster serves.
func (c *Cluster) WatchClient() (dynamic.Interface, meta.ResettableRESTMapperWithContext) {
	return c.watchClient, c.mapper
}

// Capacity reads what the nodes of the cluster have free. Errors are those of capacity.Read.
func (c *Cluster) Capacity(ctx context.Context) (status.Capacity, error) {
	s, err := capacity.Read(ctx, c.watchClient)
	return s.Capacity(), err
}

// Close closes idle connections. Calls that are under way continue.
func (c *Cluster) Close() { c.client.CloseIdleConnections() }
