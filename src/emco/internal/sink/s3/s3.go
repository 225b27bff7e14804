// Package s3 publishes the folders of clusters to buckets, which Flux reads by a Bucket.
// The objects are the files of a Git branch, below a prefix and at the same paths.
//
// A bucket knows no commit: objects are written one by one. They are written in an order
// in which what points at files is there only while the files are:
//
//	files  ->  pointers  ->  pointers removed  ->  files removed
//
// One listing of the cluster's folder tells what is there; what is there already is not
// sent again. Objects that no edit owns are left alone.
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
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/folder"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// Options tune a Publisher.
type Options struct {
	Timeout   time.Duration          // of one listing, or of one object
	PlainHTTP bool                   // allow http:// to other machines
	Admit     func(netip.Addr) error // says which addresses may be dialled; nil: transport.AdmitPublic
}

// Publisher writes to buckets. It is safe for use by several goroutines, but for one
// cluster by one at a time: buckets cannot compare and swap.
type Publisher struct {
	options Options
	clients *transport.Clients
	sent    etagCache
}

// New returns a publisher. It connects to nothing.
func New(o Options) *Publisher {
	if o.Admit == nil {
		o.Admit = transport.AdmitPublic
	}
	return &Publisher{options: o, clients: transport.NewClients(o.Admit)}
}

// Submit makes the folder of a cluster hold what the edits of the job say. All edits are
// below the cluster's directory, "clusters/<provider>+<cluster>"; what is there besides
// stays. It returns the digest of the folder's listing, whether or not something had to be
// sent: Flux shows the same as the revision of a Bucket whose prefix is that folder.
//
// The repository is https://host/bucket/prefix; see gitops.KindS3 for the rest of it.
//
// Errors are classified: Unauthorized and Forbidden for refused credentials, NotFound
// without a bucket, Throttled when the server wants less, Unavailable for what the network
// does, Invalid for addresses that are not allowed. After an error the folder may hold
// some of the new files; what points at them is written after all of them.
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

// open returns the place that a repository names.
func (p *Publisher) open(r git.Repo) (clusterFolder, error) {
	u, err := url.Parse(r.URL)
	if err != nil || u.Host == "" {
		return clusterFolder{}, errs.E(errs.Invalid, "publish", "to a bucket", errors.New("the address is no URL"))
	}
	if u.Scheme == "http" && !p.options.PlainHTTP && !folder.Loopback(u.Hostname()) {
		return clusterFolder{}, errs.E(errs.Invalid, "publish", r.URL, errors.New("a bucket without TLS has to be allowed by s3.plainHTTP"))
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

// client returns a client that tries nothing again and follows no redirect.
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
		return nil, errs.E(errs.Invalid, "publish", r.URL, errors.New("the endpoint is no host, or one with a path"))
	}
	return client, nil
}

// region is the one that requests are signed for.
func region(r git.Repo) string {
	u, err := url.Parse(r.API)
	if err != nil {
		return ""
	}
	return u.Query().Get("region")
}
