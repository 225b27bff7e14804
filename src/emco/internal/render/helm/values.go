package helm

import (
	"fmt"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"

	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// values returns what templates see. The profile's values win over the chart's, and
// overrides over both; of several overrides, the last wins.
func (r renderer) values(ch *chart.Chart, req render.Request, src chartSources) (chartutil.Values, error) {
	given, err := chartutil.ReadValues(src.values)
	if err != nil {
		return nil, fault(req, src.valuesFile, fmt.Errorf("profile values are no valid YAML: %w", err))
	}
	for _, o := range req.Overrides {
		if err := override(given, o); err != nil {
			return nil, fault(req, "", err)
		}
	}
	if err := chartutil.ProcessDependenciesWithMerge(ch, given); err != nil {
		return nil, fault(req, "", fmt.Errorf("sub-charts: %w", err))
	}
	release := chartutil.ReleaseOptions{Name: req.Release, Namespace: req.Namespace, Revision: 1, IsInstall: true}
	if release.Namespace == "" {
		release.Namespace = "default"
	}
	const ownSchemaCheck = true
	values, err := chartutil.ToRenderValuesWithSchemaValidation(ch, given, release, r.caps, ownSchemaCheck)
	if err != nil {
		return nil, fault(req, "", fmt.Errorf("values: %w", err))
	}
	own, _ := values["Values"].(chartutil.Values)
	if err := checkSchema(ch, ch.ChartFullPath(), own); err != nil {
		return nil, fault(req, "", err)
	}
	return values, nil
}

// override applies one "--set key=value". Errors omit the value, which may be a password.
func override(values map[string]any, o render.Override) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("override %q is no valid \"--set\"", o.Key)
		}
	}()
	if o.Key == "" {
		return fmt.Errorf("an override has no key")
	}
	if err := strvals.ParseInto(o.Key+"="+o.Value, values); err != nil {
		return fmt.Errorf("override %q is no valid \"--set\"; escape commas and braces in its value with a backslash", o.Key)
	}
	return nil
}
