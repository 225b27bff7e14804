package flux

import (
	"cmp"
	"errors"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/pointer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

// BucketOptions are those of clusters that read objects of a bucket.
type BucketOptions struct {
	Options
	// Source is the name of the Bucket in flux-system that the cluster was bootstrapped
	// with; default emco.
	Source string `json:"sourceName,omitempty"`
	// Prefix is where in the bucket the folders of clusters are; Flux keeps it as part of
	// all paths.
	Prefix string `json:"prefix,omitempty"`
}

// NewBucket returns the backend "s3". Its files are those of "fluxcd" without the
// GitRepository: all deployments of a cluster are in the one folder that the cluster was
// bootstrapped with.
func NewBucket(o BucketOptions) (syncer.Backend, error) {
	if err := pointer.CheckName("s3", "sourceName", o.Source); err != nil {
		return nil, err
	}
	prefix, err := syncobjects.BucketPrefix(o.Prefix)
	if err != nil {
		return nil, errs.E(errs.Invalid, "open", "sync backend s3", errors.New("prefix: "+err.Error()))
	}
	inner, err := New(o.Options)
	if err != nil {
		return nil, err
	}
	b := inner.(backend)
	b.sharedKind, b.shared = sourcev1.BucketKind, cmp.Or(o.Source, "emco")
	if prefix != "" {
		b.prefix = prefix + "/"
	}
	return b, nil
}
