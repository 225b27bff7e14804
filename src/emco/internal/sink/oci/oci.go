// Package oci publishes the folders of clusters as OCI artifacts, which Flux reads by an
// OCIRepository. Each cluster has a tag in a repository of a registry; the artifact holds
// the same files, at the same paths, as a Git branch of the cluster would.
//
// The same files have the same digest: the archive holds no times and no owners, and its
// files are sorted. What the registry has already is not sent again.
package oci

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/folder"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// Options tune a Publisher.
type Options struct {
	Timeout   time.Duration // of one exchange with a registry
	PlainHTTP bool          // allow http:// to other machines

	Admit func(netip.Addr) error // refuses addresses that must not be dialled; nil: outbound.Policy{}.Check
}

// Publisher writes to registries. It is safe for concurrent use, except for the same
// cluster: registries have no compare-and-swap.
type Publisher struct {
	options Options

	mu      sync.Mutex
	clients map[git.Repo]*auth.Client // with the tokens of registries; guarded by mu
}

// maxClients bounds the cached clients: changed credentials leave old ones behind.
const maxClients = 100

// New returns a publisher. It connects to nothing.
func New(o Options) *Publisher {
	if o.Admit == nil {
		o.Admit = outbound.Policy{}.Check
	}
	return &Publisher{options: o, clients: map[git.Repo]*auth.Client{}}
}

// Submit applies the edits of the job to the artifact of a cluster. All edits are below the
// cluster's directory, "clusters/<provider>+<cluster>"; other files of the artifact stay. It
// returns the digest of the artifact, whether or not anything had to be sent.
//
// Errors are Unauthorized and Forbidden for refused credentials, Unavailable for errors of
// the network, Throttled, and Invalid for addresses that are not allowed.
func (p *Publisher) Submit(ctx context.Context, job batch.Job) (git.Hash, error) {
	root, err := folder.Root(job.Edits)
	if err != nil {
		return "", errs.E(errs.Internal, "publish", job.Repo.URL, err)
	}
	cluster, err := v2.ParseClusterKey(strings.TrimPrefix(root, "clusters/"))
	if err != nil {
		return "", errs.E(errs.Internal, "publish", job.Repo.URL, err)
	}
	repo, err := p.repository(job.Repo)
	if err != nil {
		return "", err
	}
	s := artifactLocation{repo: repo, tag: Tag(cluster)}
	digest, err := s.publish(ctx, job, root)
	return git.Hash(digest), classified(err, job.Repo.URL+":"+s.tag)
}

// repository returns the repository at the address of r.
func (p *Publisher) repository(r git.Repo) (*remote.Repository, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil, errs.E(errs.Invalid, "publish", "to a registry", errors.New("the address is not a URL"))
	}
	if u.Scheme == "http" && !p.options.PlainHTTP && !outbound.Loopback(u.Hostname()) {
		return nil, errs.E(errs.Invalid, "publish", r.URL, errors.New("a registry without TLS is allowed only with oci.plainHTTP"))
	}
	repo, err := remote.NewRepository(u.Host + "/" + strings.Trim(u.Path, "/"))
	if err != nil {
		return nil, errs.E(errs.Invalid, "publish", r.URL, errors.New("is not the address of a repository; names are in lower case"))
	}
	client, err := p.client(r, u.Host)
	if err != nil {
		return nil, err
	}
	repo.PlainHTTP, repo.SkipReferrersGC, repo.Client = u.Scheme == "http", true, client
	return repo, nil
}

// client returns the client for a repository and its credential.
func (p *Publisher) client(r git.Repo, host string) (*auth.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.clients[r]; ok {
		return c, nil
	}
	inner, err := p.dialer(r.CA)
	if err != nil {
		return nil, err
	}
	if len(p.clients) >= maxClients {
		clear(p.clients)
	}
	p.clients[r] = &auth.Client{Client: inner, Cache: auth.NewCache(), Credential: auth.StaticCredential(host, auth.Credential{
		Username: r.User, Password: r.Token.Reveal(),
	})}
	return p.clients[r], nil
}

// dialer returns a client that trusts ca in addition to the system's certificates, dials
// only admitted addresses, and does not retry.
func (p *Publisher) dialer(ca string) (*http.Client, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = outbound.Dialer(p.options.Admit).DialContext
	t.IdleConnTimeout = 10 * time.Second
	if ca != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM([]byte(ca)) {
			return nil, errs.E(errs.Invalid, "publish", "to a registry", errors.New("ca holds no certificate in PEM"))
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: folder.ThrottleErrors(t), Timeout: p.options.Timeout, CheckRedirect: outbound.WithoutCredentials}, nil
}

// apply returns files after edits. Neither is changed.
func apply(files map[string][]byte, edits []git.Edit) map[string][]byte {
	out := maps.Clone(files)
	for _, e := range edits {
		maps.DeleteFunc(out, func(name string, _ []byte) bool { return git.Inside(name, e.Path) })
		if e.File != nil {
			out[e.Path] = e.File
		}
		for name, content := range e.Dir {
			out[e.Path+"/"+name] = content
		}
	}
	return out
}
