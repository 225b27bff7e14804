package helm

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/client-go/dynamic"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// renderedText is one rendered template, or one file of crds/.
type renderedText struct {
	file    string
	content string
	crd     bool // from crds/
}

// texts runs the templates.
func (r renderer) texts(req render.Request, src chartSources) ([]renderedText, error) {
	ch, err := load(src.chart, r.options.Archive)
	if err != nil {
		return nil, fault(req, "", fmt.Errorf("the chart cannot be loaded: %w", err))
	}
	if err := r.usable(ch, req.App); err != nil {
		return nil, fault(req, "", err)
	}
	values, err := r.values(ch, req, src)
	if err != nil {
		return nil, err
	}
	if err := offline(ch, values); err != nil {
		return nil, fault(req, "", err)
	}
	rendered, err := engine.RenderWithClientProvider(ch, values, noCluster{})
	if err != nil {
		return nil, templateFault(req.App, err)
	}
	out := collect(ch, rendered)
	size := 0
	for _, t := range out {
		size += len(t.content)
	}
	if size > r.options.Output {
		return nil, fault(req, "", fmt.Errorf("renders to %d bytes, more than %d", size, r.options.Output))
	}
	return out, nil
}

// usable checks what Helm checks before it installs a chart.
func (r renderer) usable(ch *chart.Chart, app string) error {
	if kube := ch.Metadata.KubeVersion; kube != "" && !chartutil.IsCompatibleRange(kube, r.caps.KubeVersion.Version) {
		return fmt.Errorf("the chart wants Kubernetes %s, but rendering is for %s", kube, r.caps.KubeVersion.Version)
	}
	var missing []string
	for _, want := range ch.Metadata.Dependencies {
		has := func(sub *chart.Chart) bool { return want != nil && sub.Name() == want.Name }
		if want != nil && !slices.ContainsFunc(ch.Dependencies(), has) {
			missing = append(missing, want.Name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("sub-chart %s is not in %s/charts; run \"helm dependency update %s\" before packing", strings.Join(missing, ", "), app, app)
	}
	return nil
}

// collect returns the rendered templates and the files of crds/, sorted by file. It omits
// notes for users and empty texts.
func collect(ch *chart.Chart, rendered map[string]string) []renderedText {
	var out []renderedText
	for file, content := range rendered {
		if path.Base(file) != "NOTES.txt" && strings.TrimSpace(content) != "" {
			out = append(out, renderedText{file: file, content: content})
		}
	}
	for _, crd := range ch.CRDObjects() {
		out = append(out, renderedText{file: crd.Filename, content: string(crd.File.Data), crd: true})
	}
	slices.SortFunc(out, func(a, b renderedText) int { return strings.Compare(a.file, b.file) })
	return out
}

// noCluster makes the template function lookup fail.
type noCluster struct{}

var errLookup = errors.New("lookup needs a cluster, and rendering has none; take the value from values.yaml")

// GetClientFor refuses.
func (noCluster) GetClientFor(string, string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return nil, false, errLookup
}

// capabilities returns what templates see of the cluster. It lists only stable group
// versions: a chart that tests for an older one first would use it, and today's API servers
// do not serve it.
func capabilities(o Options) (*chartutil.Capabilities, error) {
	kube, err := chartutil.ParseKubeVersion(o.KubeVersion)
	if err != nil {
		return nil, errs.E(errs.Invalid, "", "", fmt.Errorf("kubernetes version %q: %w", o.KubeVersion, err))
	}
	caps := chartutil.DefaultCapabilities.Copy()
	caps.KubeVersion = *kube
	caps.HelmVersion.Version = "v3.22.0"
	caps.HelmVersion.GoVersion = ""
	var stable chartutil.VersionSet
	for _, gv := range chartutil.DefaultVersionSet {
		if version := path.Base(gv); !strings.Contains(version, "alpha") && !strings.Contains(version, "beta") {
			stable = append(stable, gv)
		}
	}
	caps.APIVersions = slices.Concat(stable, o.APIVersions)
	return caps, nil
}
