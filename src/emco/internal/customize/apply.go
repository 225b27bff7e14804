package customize

import (
	"errors"
	"fmt"
	"slices"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/patch"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// Apply returns a rendering of a request with the edits of a class. Objects get the namespace,
// the labels and the stamp that rendered objects have. The error is Invalid and holds a
// render.Fault, whose file is the origin of an edit.
func (c Class) Apply(r render.Result, req render.Request) (render.Result, error) {
	if !slices.ContainsFunc(c.Edits, func(e Edit) bool { return e.Values == nil }) {
		return r, nil
	}
	t := editedResult{result: r, app: req.App, defaults: defaultsOf(r, req)}
	t.result.Objects, t.result.CRDs = slices.Clone(r.Objects), slices.Clone(r.CRDs)
	t.result.Hooks, t.result.Findings = slices.Clone(r.Hooks), slices.Clone(r.Findings)
	for _, e := range c.Edits {
		if err := t.edit(e); err != nil {
			return render.Result{}, (&render.Fault{App: req.App, File: e.Origin, Reason: reasonOf(err)}).Invalid()
		}
	}
	manifest.Sort(t.result.CRDs)
	manifest.Sort(t.result.Objects)
	slices.Sort(t.result.Findings)
	t.result.Findings = slices.Compact(t.result.Findings)
	return t.result, nil
}

// defaultsOf returns what completes objects, as it completed those of the rendering.
func defaultsOf(r render.Result, req render.Request) manifest.Defaults {
	labels := make(map[string]string, len(req.Labels))
	for _, l := range req.Labels {
		labels[l.Key] = l.Value
	}
	return manifest.Defaults{Namespace: req.Namespace, Labels: labels, Scopes: manifest.ScopesOf(r.CRDs), Stamp: true}
}

// reasonOf returns an error without the name of the source, which the fault names already.
func reasonOf(err error) string {
	if problems, ok := errors.AsType[manifest.Problems](err); ok && len(problems) > 0 {
		return problems[0].Reason
	}
	return err.Error()
}

// editedResult is a rendering while it is edited.
type editedResult struct {
	result   render.Result
	app      string
	defaults manifest.Defaults
}

func (t *editedResult) edit(e Edit) error {
	switch {
	case e.Object != nil:
		return t.add(e)
	case e.Patch != nil:
		return t.patch(e)
	}
	return nil
}

// add adds an object. The app must not have it yet.
func (t *editedResult) add(e Edit) error {
	o, err := t.parse(e.Origin, e.Object)
	if err != nil {
		return err
	}
	if t.find(func(other manifest.Object) bool { return other.ID.Key() == o.ID.Key() }) != nil {
		return fmt.Errorf("the app has %s already; patch it instead of adding it (newObject: \"false\")", o.ID)
	}
	if manifest.IsCRD(o.ID) {
		t.result.CRDs = append(t.result.CRDs, o)
	} else {
		t.result.Objects = append(t.result.Objects, o)
	}
	return nil
}

// parse reads one object and completes it.
func (t *editedResult) parse(source string, text []byte) (manifest.Object, error) {
	objects, err := manifest.Parse(source, text)
	if err != nil {
		return manifest.Object{}, err
	}
	if len(objects) != 1 {
		return manifest.Object{}, fmt.Errorf("it has %d objects, not one", len(objects))
	}
	if objects, err = manifest.Complete(objects, t.defaults); err != nil {
		return manifest.Object{}, err
	}
	return objects[0], nil
}

// find returns the objects of the rendering that match.
func (t *editedResult) find(match func(manifest.Object) bool) (out []*manifest.Object) {
	for _, part := range [][]manifest.Object{t.result.CRDs, t.result.Objects} {
		for i := range part {
			if match(part[i]) {
				out = append(out, &part[i])
			}
		}
	}
	for i := range t.result.Hooks {
		if match(t.result.Hooks[i].Object) {
			out = append(out, &t.result.Hooks[i].Object)
		}
	}
	return out
}

// patch patches the objects of a target.
func (t *editedResult) patch(e Edit) error {
	target := e.Patch.Target
	named := func(o manifest.Object) bool { return o.ID.Kind == target.Kind && o.ID.Name == target.Name }
	found := t.find(named)
	if len(found) > 1 {
		exact := t.find(func(o manifest.Object) bool { return named(o) && o.ID.APIVersion() == target.APIVersion })
		if len(exact) > 0 {
			found = exact
		}
	}
	if len(found) == 0 {
		t.result.Findings = append(t.result.Findings, fmt.Sprintf("%s: changes nothing, because the app has no %s", e.Origin, target))
		return nil
	}
	for _, o := range found {
		text, err := patch.Apply(e.Patch.Type, o.ID, o.Content, e.Patch.Text)
		if err != nil {
			return fmt.Errorf("%s: %w", o.ID, err)
		}
		next, err := t.parse(e.Origin, text)
		if err != nil {
			return fmt.Errorf("%s: %s", o.ID, reasonOf(err))
		}
		if next.ID != o.ID {
			return fmt.Errorf("the patch makes %s of %s; a patch must not change apiVersion, kind, namespace or name", next.ID, o.ID)
		}
		next.Source, next.Line = o.Source, o.Line
		*o = next
	}
	return nil
}
