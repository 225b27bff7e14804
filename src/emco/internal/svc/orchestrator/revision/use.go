package revision

import (
	"context"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// use returns what a draft puts on clusters. It adds once for the clusters that share their apps.
func (b Builder) use(ctx context.Context, d Draft) (out appcontext.Use, err error) {
	sizes := map[appcontext.Digest]appcontext.BundleSize{}
	for _, a := range d.Revision.Apps {
		if len(a.Sizes) != len(a.Bundles) {
			continue
		}
		for i, bundle := range a.Bundles {
			sizes[bundle] = a.Sizes[i]
		}
	}
	shared := map[uintptr]appcontext.BundleSize{}
	for _, p := range d.Placements {
		if len(p.Apps) == 0 {
			continue
		}
		sum, known := shared[p.SetID()]
		if !known {
			for _, bundle := range p.Apps {
				size, measured := sizes[bundle]
				if !measured { // of a failed app, or of a revision of an older version
					if size, err = b.sizeOf(ctx, bundle); err != nil {
						return out, err
					}
					sizes[bundle] = size
				}
				sum.Objects, sum.Bytes = sum.Objects+size.Objects, sum.Bytes+size.Bytes
			}
			shared[p.SetID()] = sum
		}
		out.Clusters++
		out.Objects, out.Bytes = out.Objects+sum.Objects, out.Bytes+sum.Bytes
	}
	return out, nil
}

// sizeOf reads the size of a stored bundle.
func (b Builder) sizeOf(ctx context.Context, bundle appcontext.Digest) (appcontext.BundleSize, error) {
	content, err := b.readBundle(ctx, bundle)
	return sizeOfResult(content), err
}

// sizeOfResult returns what rendered content puts on a cluster.
func sizeOfResult(r render.Result) appcontext.BundleSize {
	size := appcontext.BundleSize{Objects: int64(len(r.Objects) + len(r.CRDs) + len(r.Hooks))}
	for _, o := range r.Objects {
		size.Bytes += int64(len(o.Content))
	}
	for _, o := range r.CRDs {
		size.Bytes += int64(len(o.Content))
	}
	for _, h := range r.Hooks {
		size.Bytes += int64(len(h.Object.Content))
	}
	return size
}
