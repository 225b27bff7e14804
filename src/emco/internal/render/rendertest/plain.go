package rendertest

import (
	"context"
	"errors"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/tarball"
)

// Plain is a renderer for tests of packages that use renderers: its charts hold manifests instead
// of templates, and "{{ .Release.Name }}" is the only expression. It does without Helm,
// which makes test programs large.
type Plain struct{}

// Edition is "plain".
func (Plain) Edition() string { return "plain" }

// Render returns the manifests in the directory templates of the app's chart.
func (Plain) Render(ctx context.Context, req render.Request) (render.Result, error) {
	if err := ctx.Err(); err != nil {
		return render.Result{}, err
	}
	if err := v2.CheckName("release", req.Release); err != nil || req.Release != strings.ToLower(req.Release) {
		return render.Result{}, (&render.Fault{App: req.App, Reason: "the release name is not a DNS label"}).Invalid()
	}
	in, err := req.Package.Open(ctx)
	if err != nil {
		return render.Result{}, err
	}
	files, err := tarball.Files(in, tarball.Default())
	closed := in.Close()
	if kind := errs.KindOf(err); err != nil && (kind == errs.Malformed || kind == errs.TooLarge) {
		return render.Result{}, (&render.Fault{App: req.App, Reason: err.Error()}).Invalid()
	}
	if err := errors.Join(err, closed); err != nil {
		return render.Result{}, err
	}
	labels := map[string]string{}
	for _, l := range req.Labels {
		labels[l.Key] = l.Value
	}
	defaults := manifest.Defaults{Namespace: req.Namespace, Labels: labels, Stamp: true}
	var out render.Result
	for _, name := range files.Names() {
		if !strings.HasPrefix(name, req.App+"/templates/") {
			continue
		}
		text := strings.ReplaceAll(string(files[name]), "{{ .Release.Name }}", req.Release)
		objects, err := manifest.Parse(name, []byte(text))
		if err == nil {
			objects, err = manifest.Complete(objects, defaults)
		}
		if problems, ok := errors.AsType[manifest.Problems](err); ok {
			p := problems[0]
			return render.Result{}, (&render.Fault{App: req.App, File: p.Source, Line: p.Line, Reason: p.Reason}).Invalid()
		}
		if err != nil {
			return render.Result{}, err
		}
		out.Objects = append(out.Objects, objects...)
	}
	manifest.Sort(out.Objects)
	return out, nil
}
