// Package s3 publishes the folders of clusters to buckets, which Flux reads by a Bucket.
// The objects are the files of a Git branch, below a prefix and at the same paths.
//
// A bucket has no commits: objects are written one by one. Their order makes pointers exist
// only while their files do:
//
//	files  ->  pointers  ->  pointers removed  ->  files removed
//
// One listing of the cluster's folder shows what exists; that is not sent again. Objects
// that no edit owns stay.
package s3

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/folder"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// Options tune a Publisher.
type Options struct {
	Timeout   time.Duration          // of one listing, or of one object
	PlainHTTP bool                   // allow http:// to other machines
	Admit     func(netip.Addr) error // refuses addresses that must not be dialled; nil: outbound.Policy{}.Check
}

// Publisher writes to buckets. It is safe for concurrent use, except for the same cluster:
// buckets have no compare-and-swap.
type Publisher struct {
	options Options
	clients *transport.Clients
	sent    etagCache
}

// New returns a publisher. It connects to nothing.
func New(o Options) *Publisher {
	if o.Admit == nil {
		o.Admit = outbound.Policy{}.Check
	}
	return &Publisher{options: o, clients: transport.NewClients(o.Admit)}
}

// Submit applies the edits of the job to the folder of a cluster. All edits are below the
// cluster's directory, "clusters/<provider>+<cluster>"; other objects stay. It returns the
// digest of the folder's listing, whether or not anything had to be sent: Flux shows the
// same as the revision of a Bucket whose prefix is that folder.
//
// The repository is https://host/bucket/prefix; see syncobjects.KindS3 for the rest of it.
//
// Errors are Unauthorized and Forbidden for refused credentials, NotFound without a bucket,
// Throttled, Unavailable for errors of the network, and Invalid for addresses that are not
// allowed. After an error the folder may hold some of the new files; pointers are written
// after all of them.
func (p *Publisher) Submit(ctx context.Context, job batch.Job) (git.Hash, error) {
	root, err := folder.Root(job.Edits)
	if err != nil {
		return "", errs.E(errs.Internal, "publish", job.Repo.URL, err)
	}
	at, err := p.open(job.Repo)
	if err != nil {
		return "", err
	}
	revision, err := at.publish(ctx, job, root)
	return git.Hash(revision), at.classified(ctx, err)
}

// open returns the folders at the address of r.
func (p *Publisher) open(r git.Repo) (clusterFolder, error) {
	u, err := url.Parse(r.URL)
	if err != nil || u.Host == "" {
		return clusterFolder{}, errs.E(errs.Invalid, "publish", "to a bucket", errors.New("the address is not a URL"))
	}
	if u.Scheme == "http" && !p.options.PlainHTTP && !outbound.Loopback(u.Hostname()) {
		return clusterFolder{}, errs.E(errs.Invalid, "publish", r.URL, errors.New("a bucket without TLS is allowed only with s3.plainHTTP"))
	}
	client, err := p.client(r, u)
	if err != nil {
		return clusterFolder{}, err
	}
	bucket, prefix, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if prefix != "" {
		prefix += "/"
	}
	return clusterFolder{client: client, sent: &p.sent, repo: r, bucket: bucket, prefix: prefix, timeout: p.options.Timeout}, nil
}

// client returns a client that does not retry and follows no redirect.
func (p *Publisher) client(r git.Repo, u *url.URL) (*minio.Client, error) {
	shared, err := p.clients.Get(r)
	if err != nil {
		return nil, err
	}
	client, err := minio.New(u.Host, &minio.Options{
		Creds:      credentials.NewStaticV4(r.User, r.Token.Reveal(), ""),
		Secure:     u.Scheme == "https",
		Transport:  folder.ThrottleErrors(shared.Transport),
		Region:     cmp.Or(region(r), "us-east-1"),
		MaxRetries: 1,
	})
	if err != nil {
		return nil, errs.E(errs.Invalid, "publish", r.URL, errors.New("the endpoint must be a host without a path"))
	}
	return client, nil
}

// region returns the region that requests are signed for.
func region(r git.Repo) string {
	u, err := url.Parse(r.API)
	if err != nil {
		return ""
	}
	return u.Query().Get("region")
}
