package revision

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/guard"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/sops"
)

// encryptedContent is what encrypted contents were made of, by their digests.
type encryptedContent map[appcontext.Digest]appcontext.Digest

// encrypt encrypts the readable Secrets of a class, and records their sources in made. A Secret that is
// desired already, for the same recipients, stays as it is in Git: encrypted again, it would be a change without a
// change. The failure means that the clusters have no recipients.
func (b Builder) encrypt(ctx context.Context, c customize.Class, e customize.Edit, before builtBefore, r render.Result, made encryptedContent) (render.Result, *appcontext.Failure, error) {
	r.Objects, r.Hooks = slices.Clone(r.Objects), slices.Clone(r.Hooks)
	objects := make([]*manifest.Object, 0, len(r.Objects)+len(r.Hooks))
	for i := range r.Objects {
		objects = append(objects, &r.Objects[i])
	}
	for i := range r.Hooks {
		objects = append(objects, &r.Hooks[i].Object)
	}
	for _, o := range objects {
		readable, err := guard.Readable(*o)
		if err != nil {
			return r, nil, err
		}
		if !readable {
			continue
		}
		if len(e.Encryption.Recipients) == 0 {
			return r, undecryptable(c, e, *o), nil
		}
		reason, err := b.encryptObject(ctx, o, e.Encryption.Recipients, before.encrypted, made)
		if err != nil {
			return r, nil, err
		}
		if reason != "" {
			return r, &appcontext.Failure{Stage: "policy", File: o.Source, Reason: fmt.Sprintf("%s encrypts %s: %s", e.Origin, o.ID, reason)}, nil
		}
	}
	return r, nil, nil
}

// undecryptable is the failure of a Secret that no cluster could decrypt.
func undecryptable(c customize.Class, e customize.Edit, o manifest.Object) *appcontext.Failure {
	where := "its clusters read files"
	if len(c.Clusters) > 0 {
		where = fmt.Sprintf("cluster %s reads files", c.Clusters[0])
	}
	return &appcontext.Failure{Stage: "policy", File: o.Source, Reason: fmt.Sprintf(
		"%s holds values, which %s encrypts; but %s, and its sync objects have no key ageRecipients", o.ID, e.Origin, where)}
}

// encryptedObjects are encrypted objects by their sources: those that are desired now, and those that the
// draft has made. So equal Secrets for the same recipients have one encrypted form.
type encryptedObjects struct {
	mu    sync.Mutex
	known map[appcontext.Digest]manifest.Object // guarded by mu; without Content until it was read
}

// encryptObject encrypts a Secret, or takes it as it was encrypted before. The reason is why it cannot be
// encrypted; errors are the store's.
func (b Builder) encryptObject(ctx context.Context, o *manifest.Object, recipients []string, known *encryptedObjects, made encryptedContent) (reason string, err error) {
	from := manifest.DigestOf(fmt.Appendf(nil, "%s %s", o.Digest, strings.Join(recipients, ",")))
	known.mu.Lock()
	defer known.mu.Unlock()
	is, there := known.known[from]
	if there && is.Content == nil {
		is.Content, err = b.Contexts.GetBlob(ctx, is.Digest)
		if there = err == nil; !there && !errs.Is(err, errs.NotFound) {
			return "", err
		}
	}
	if !there {
		content, err := sops.Encrypt(o.Content, recipients, time.Now())
		if err != nil {
			return err.Error(), nil
		}
		if len(content) > manifest.MaxObject {
			return fmt.Sprintf("encrypted, it has %d bytes, above the limit of %d; split it", len(content), manifest.MaxObject), nil
		}
		is = manifest.Object{Digest: manifest.DigestOf(content), Content: content}
	}
	known.known[from] = is
	o.Content, o.Digest = is.Content, is.Digest
	made[o.Digest] = from
	return "", nil
}

// encryptedBefore returns the encrypted objects that are desired now.
func (b Builder) encryptedBefore(ctx context.Context, head appcontext.Head) (*encryptedObjects, error) {
	out := &encryptedObjects{known: map[appcontext.Digest]manifest.Object{}}
	now, err := Desired(ctx, b.Contexts, head)
	if err != nil {
		return nil, err
	}
	seen := map[appcontext.Digest]bool{}
	for _, p := range now {
		for _, digest := range p.Apps {
			if seen[digest] {
				continue
			}
			seen[digest] = true
			bundle, err := b.Contexts.GetBundle(ctx, digest)
			if err != nil {
				return nil, err
			}
			refs := slices.Clone(bundle.Objects)
			for _, h := range bundle.Hooks {
				refs = append(refs, h.Ref)
			}
			for _, ref := range refs {
				if old, there := out.known[ref.Sealed]; ref.Sealed != "" && (!there || ref.Digest < old.Digest) {
					out.known[ref.Sealed] = manifest.Object{Digest: ref.Digest}
				}
			}
		}
	}
	return out, nil
}

// checkEncrypted refuses the draft of a rollback that would bring readable Secrets to clusters that read files.
func (b Builder) checkEncrypted(ctx context.Context, d Draft, policy string) error {
	clusters := make([]v2.ClusterKey, len(d.Placements))
	for i, p := range d.Placements {
		clusters[i] = p.Cluster
	}
	readers := map[v2.ClusterKey][]string{}
	if b.Recipients != nil {
		var err error
		if readers, err = b.Recipients(ctx, clusters); err != nil {
			return err
		}
	}
	readable := map[appcontext.Digest]bool{} // whether bundles have readable Secrets
	for _, p := range d.Placements {
		if _, reads := readers[p.Cluster]; !reads && b.Recipients != nil {
			continue
		}
		for app, bundle := range p.Apps {
			has, known := readable[bundle]
			if !known {
				content, err := b.readBundle(ctx, bundle)
				if err != nil {
					return err
				}
				if has, err = hasReadable(content); err != nil {
					return err
				}
				readable[bundle] = has
			}
			if has {
				return errs.New(errs.Invalid, fmt.Sprintf("revision %d is not restored: app %s has Secrets that are not encrypted, on cluster %s, and policy %s wants them encrypted", d.Revision.From, app, p.Cluster, policy))
			}
		}
	}
	return nil
}

// hasReadable reports whether content has a Secret that is not encrypted.
func hasReadable(r render.Result) (bool, error) {
	objects := slices.Clone(r.Objects)
	for _, h := range r.Hooks {
		objects = append(objects, h.Object)
	}
	for _, o := range objects {
		if readable, err := guard.Readable(o); err != nil || readable {
			return readable, err
		}
	}
	return false, nil
}
