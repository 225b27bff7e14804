// Package render defines renderers: they turn a package and values into Kubernetes objects,
// without network and cluster. It also computes the digest of a rendering's inputs (Class), hides override values in
// errors (Scrubbed), and limits the slow apps of a revision (Budget).
package render

import (
	"context"
	"io"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Request is everything that a rendering depends on: equal requests render equal objects.
// Its digest identifies a class (see Class).
type Request struct {
	App       string     // the app's name, which is also the chart's directory in the package
	Package   Archive    // the app's gzip-compressed tar
	Profile   Archive    // the app profile's archive; the zero Archive if there is none
	Overrides []Override // applied in this order, after chart and profile values
	Release   string     // Helm release name
	Namespace string     // for objects that name none
	Labels    []Label    // set on each object's metadata and on pod templates

	// Results do not depend on these.
	Project string  // the tenant whose share of the machine the rendering uses
	Budget  *Budget // what the slow apps of the revision may use together; nil: no limit
}

// Archive is an uploaded package: its digest, and how to read it.
type Archive struct {
	Digest manifest.Digest
	Open   func(context.Context) (io.ReadCloser, error)
}

// Override is one "--set key=value" in Helm's syntax.
type Override struct{ Key, Value string }

// Label is a label to set.
type Label struct{ Key, Value string }

// Result is what a chart rendered to, sorted in the order of application.
type Result struct {
	Objects []manifest.Object // main resources, in Helm's install order
	CRDs    []manifest.Object // custom resource definitions, which are never deleted
	Hooks   []Hook            // by weight, then name

	// Findings are warnings for the user, sorted: objects that ask to be kept, hooks of
	// unknown events, and the like. They contain no values.
	Findings []string
}

// Hook is an object that a chart wants applied at certain events.
type Hook struct {
	Object         manifest.Object
	Events         []string // Helm's names: pre-install, post-delete, ...
	Weight         int
	DeletePolicies []string // Helm's names; none means before-hook-creation, as in Helm
}

// Renderer renders requests. If a package, a profile or values cannot be rendered, the
// error is Invalid and holds a Fault; it is safe to show to users. Archives that cannot be
// read keep the kind of their error. When ctx ends, Render returns its error. Equal
// requests give equal results, unless the chart uses random values.
type Renderer interface {
	Render(ctx context.Context, req Request) (Result, error)
	// Edition identifies everything else that results depend on: the renderer's version,
	// its encoding of objects, and the capabilities that charts see. It is part of each
	// Class.
	Edition() string
}
