// Package kube brings the objects of apps to a cluster through its API server:
// definitions first, then namespaces, then the rest in order, by server-side apply;
// what left is deleted last, and only when everything that is wanted is there.
package kube

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// FieldManager is the name under which the fields of objects are ours.
const FieldManager = "emco"

// Options bound what a cluster is asked for.
type Options struct {
	QPS           float32       // requests a second to one cluster
	Burst         int           // requests that may go out at once
	Timeout       time.Duration // of one request
	CRDTimeout    time.Duration // for definitions to be served after they were applied
	AllowInsecure bool          // clusters without a verified certificate

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
	return &Sink{o}
}

// Cluster is a connection to one cluster. It may be used by several goroutines at once.
// What the cluster's API offers is remembered in memory, for this cluster alone.
type Cluster struct {
	host     string
	options  Options
	client   *http.Client
	api      discovery.DiscoveryInterfaceWithContext
	mapper   *restmapper.DeferredDiscoveryRESTMapper
	metadata metadata.Interface // objects without their content, which is all that applying needs
	dynamic  dynamic.Interface
	watching dynamic.Interface
}

// Connect returns a connection by a kubeconfig. It asks the cluster nothing yet.
// Kubeconfigs that run programs, read files or leave the certificate unchecked are
// Invalid: whoever uploads one must not make this process do such things.
func (s *Sink) Connect(kubeconfig []byte) (*Cluster, error) {
	config, err := restConfig(kubeconfig, s.options)
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, refused("does not make a client", err)
	}
	c := &Cluster{host: config.Host, options: s.options, client: client}
	if c.api, err = discovery.NewDiscoveryClientForConfigAndClient(config, client); err != nil {
		return nil, refused("does not make a client", err)
	}
	if c.metadata, err = metadata.NewForConfigAndClient(config, client); err != nil {
		return nil, refused("does not make a client", err)
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, client); err != nil {
		return nil, refused("does not make a client", err)
	}
	if c.watching, err = dynamic.NewForConfigAndClient(unlimited(config), client); err != nil {
		return nil, refused("does not make a client", err)
	}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapperWithContext(memory.NewMemCacheClientWithContext(c.api))
	return c, nil
}

// unlimited returns config without the limit on requests: watches are few and must
// not wait behind the work of applying.
func unlimited(config *rest.Config) *rest.Config {
	out := rest.CopyConfig(config)
	out.RateLimiter, out.QPS = nil, -1
	return out
}

// Host returns the URL of the API server.
func (c *Cluster) Host() string { return c.host }

// Reach asks the cluster for its version; the error says why there is no answer.
func (c *Cluster) Reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	_, err := c.api.ServerVersionWithContext(ctx)
	return Classify("reach", c.host, err)
}

// Watching returns what is needed to watch the cluster: a client without a limit on
// requests, and the mapping of its kinds, which Reset makes it read anew.
func (c *Cluster) Watching() (dynamic.Interface, meta.ResettableRESTMapperWithContext) {
	return c.watching, c.mapper
}

// Close ends idle connections. Calls that are under way go on.
func (c *Cluster) Close() { c.client.CloseIdleConnections() }
