package s3

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

const (
	atOnce     = 8      // concurrent writes or deletions of a cluster's objects
	maxObjects = 20_000 // in the folder of a cluster
)

// clusterFolder locates the folders of clusters in a bucket.
type clusterFolder struct {
	client         *minio.Client
	sent           *etagCache
	repo           git.Repo
	bucket, prefix string // the prefix ends in "/", or is empty
	timeout        time.Duration
}

// publish applies the edits of a job to a folder and returns the digest of its listing.
func (p clusterFolder) publish(ctx context.Context, job batch.Job, root string) (string, error) {
	have, err := p.list(ctx, root)
	if err != nil {
		return "", err
	}
	w := workOf(have, job.Edits, root, func(name string, of etagPair) bool { return p.sent.same(p.repo.URL+"/"+name, of) })
	if w.nothing() {
		return have.revision(p.prefix), nil
	}
	if err := p.carryOut(ctx, w, have, job.Fence); err != nil {
		return "", err
	}
	return have.revision(p.prefix), nil
}

// carryOut makes the changes, in the order of the package comment, and updates the listing.
// It checks the fence before pointers change and before files are removed.
func (p clusterFolder) carryOut(ctx context.Context, w folderChange, have objectListing, fence batch.Fence) error {
	if len(w.files) > 0 {
		if err := ask(ctx, fence); err != nil {
			return err
		}
		if err := p.write(ctx, w.files, w.content, have); err != nil {
			return err
		}
	}
	if len(w.pointers)+len(w.unpointed)+len(w.removed) == 0 {
		return nil
	}
	if err := ask(ctx, fence); err != nil {
		return err
	}
	if err := p.write(ctx, w.pointers, w.content, have); err != nil {
		return err
	}
	if err := p.remove(ctx, w.unpointed, have); err != nil {
		return err
	}
	return p.remove(ctx, w.removed, have)
}

func ask(ctx context.Context, fence batch.Fence) error {
	if fence.Check == nil {
		return nil
	}
	return fence.Check(ctx)
}

// list returns the objects of a cluster's folder.
func (p clusterFolder) list(ctx context.Context, root string) (objectListing, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel() // ends the listing
	out := objectListing{}
	for o := range p.client.ListObjects(ctx, p.bucket, minio.ListObjectsOptions{Prefix: p.prefix + root + "/", Recursive: true}) {
		name, inside := strings.CutPrefix(o.Key, p.prefix)
		switch {
		case o.Err != nil:
			return nil, o.Err
		case !inside || strings.HasSuffix(name, "/"): // some tools make objects that look like directories
			continue
		case len(out) == maxObjects:
			return nil, errs.New(errs.TooLarge, "the cluster's folder has more than 20000 objects")
		}
		out[name] = strings.Trim(o.ETag, `"`)
	}
	return out, ctx.Err()
}

// write sends objects, several at a time, and records their ETags.
func (p clusterFolder) write(ctx context.Context, names []string, content map[string][]byte, have objectListing) error {
	var mu sync.Mutex
	return each(ctx, names, func(ctx context.Context, name string) error {
		tag, err := p.put(ctx, name, content[name])
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			have[name] = tag
		}
		return err
	})
}

func (p clusterFolder) put(ctx context.Context, name string, text []byte) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	info, err := p.client.PutObject(ctx, p.bucket, p.prefix+name, bytes.NewReader(text), int64(len(text)), minio.PutObjectOptions{
		ContentType: "application/yaml", SendContentMd5: true, DisableMultipart: true,
	})
	tag := strings.Trim(info.ETag, `"`)
	if err == nil {
		p.sent.keep(p.repo.URL+"/"+name, etagPair{tag, etag(text)})
	}
	return tag, err
}

// remove deletes objects, several at a time. A missing object is no error.
func (p clusterFolder) remove(ctx context.Context, names []string, have objectListing) error {
	err := each(ctx, names, func(ctx context.Context, name string) error {
		ctx, cancel := context.WithTimeout(ctx, p.timeout)
		defer cancel()
		return p.client.RemoveObject(ctx, p.bucket, p.prefix+name, minio.RemoveObjectOptions{})
	})
	if err == nil {
		for _, name := range names {
			delete(have, name)
		}
	}
	return err
}

// each calls do for all names, until the first error.
func each(ctx context.Context, names []string, do func(context.Context, string) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { return do(ctx, name) })
	}
	return g.Wait()
}
