// Package helm renders Helm 3 charts with Helm's engine as a library: without network,
// cluster and disk. It refuses functions of templates that read from outside, instead of
// returning nothing.
//
// A template that loops cannot be stopped within the process. For charts from strangers,
// wrap this renderer in package isolated.
package helm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/tarball"
)

// Options configure the rendering of charts.
type Options struct {
	KubeVersion string         // what templates see as .Capabilities.KubeVersion
	APIVersions []string       // more group versions for .Capabilities.APIVersions, in addition to the stable ones
	Archive     tarball.Limits // for packages, profiles and sub-charts
	Output      int            // size limit of a chart's output, in bytes
}

// Default returns the options that fit most clusters.
func Default() Options {
	return Options{KubeVersion: "v1.34.0", Archive: tarball.Default(), Output: manifest.MaxText}
}

// New returns a renderer. The error is Invalid if the Kubernetes version is malformed.
func New(o Options) (render.Renderer, error) {
	caps, err := capabilities(o)
	if err != nil {
		return nil, err
	}
	return renderer{options: o, caps: caps}, nil
}

type renderer struct {
	options Options
	caps    *chartutil.Capabilities
}

// Render renders a chart. It checks ctx between steps; templates run to their end.
func (r renderer) Render(ctx context.Context, req render.Request) (res render.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			res, err = render.Result{}, fault(req, "", fmt.Errorf("the chart breaks Helm's library: %v", p))
		}
	}()
	if err := check(req); err != nil {
		return render.Result{}, fault(req, "", err)
	}
	src, err := r.sources(ctx, req)
	if err != nil {
		return render.Result{}, err
	}
	texts, err := r.texts(req, src)
	if err != nil {
		return render.Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return render.Result{}, err
	}
	return r.result(req, texts)
}

// writing must be increased when equal requests begin to give other bytes.
const writing = "1"

// Edition identifies Helm's version and what charts see of clusters.
func (r renderer) Edition() string {
	return strings.Join(append([]string{"helm", writing, r.caps.HelmVersion.Version, r.caps.KubeVersion.Version}, r.options.APIVersions...), " ")
}

// sources reads the package and the profile of a request.
func (r renderer) sources(ctx context.Context, req render.Request) (chartSources, error) {
	files, err := r.read(ctx, req, "package", req.Package)
	if err != nil {
		return chartSources{}, err
	}
	if err := tarball.CheckChart(files, req.App); err != nil {
		return chartSources{}, fault(req, "", err)
	}
	src := chartSources{chart: sub(files, req.App)}
	if req.Profile.Open == nil {
		return src, ctx.Err()
	}
	if files, err = r.read(ctx, req, "profile", req.Profile); err != nil {
		return chartSources{}, err
	}
	if err := src.apply(req.App, files); err != nil {
		return chartSources{}, fault(req, "", err)
	}
	return src, ctx.Err()
}

// read reads an archive within the limits. A bad archive is the user's fault; an archive
// that cannot be read is not, and its error keeps its kind.
func (r renderer) read(ctx context.Context, req render.Request, what string, a render.Archive) (tarball.Tree, error) {
	if a.Open == nil {
		return nil, fault(req, "", errors.New("it has no "+what+"; upload one"))
	}
	in, err := a.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("open %s of app %s: %w", what, req.App, err)
	}
	files, err := tarball.Files(in, r.options.Archive)
	err = errors.Join(err, in.Close())
	switch k := errs.KindOf(err); {
	case err == nil:
		return files, nil
	case k == errs.Malformed || k == errs.TooLarge:
		return nil, fault(req, what, err)
	}
	return nil, fmt.Errorf("read %s of app %s: %w", what, req.App, err)
}

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// Length limits of names, by Helm's and Kubernetes' rules. Helm leaves room for what charts
// append to a release's name.
const (
	maxRelease   = 53
	maxNamespace = 63
)

// check checks the names of a request.
func check(req render.Request) error {
	const rule = "must be a DNS label: lower-case letters, digits and dashes, at most %d characters"
	switch {
	case len(req.Release) > maxRelease || !dnsLabel.MatchString(req.Release):
		return fmt.Errorf("release name %q "+rule+"; it is the version of the deployment intent group", req.Release, maxRelease)
	case req.Namespace != "" && (len(req.Namespace) > maxNamespace || !dnsLabel.MatchString(req.Namespace)):
		return fmt.Errorf("namespace %q "+rule, req.Namespace, maxNamespace)
	}
	return nil
}

// fault makes err readable for the user of a request.
func fault(req render.Request, file string, err error) error {
	return (&render.Fault{App: req.App, File: file, Reason: err.Error()}).Invalid()
}
