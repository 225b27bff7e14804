package helm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// Helm's annotations.
const (
	hookEvents = "helm.sh/hook"
	hookWeight = "helm.sh/hook-weight"
	hookDelete = "helm.sh/hook-delete-policy"
	keepPolicy = "helm.sh/resource-policy"
)

// crdInstall is Helm 2's event for CRDs. Helm 3 drops such objects with a log line; because
// they are CRDs, they are added to the CRDs.
const crdInstall = "crd-install"

// knownEvents are Helm's events.
var knownEvents = []string{
	"pre-install", "post-install", "pre-delete", "post-delete", "pre-upgrade",
	"post-upgrade", "pre-rollback", "post-rollback", "test", "test-success", crdInstall,
}

// result parses the rendered texts and sorts the objects into objects, CRDs and hooks.
func (r renderer) result(req render.Request, texts []renderedText) (render.Result, error) {
	all, fromDir, err := parseAll(texts)
	if err != nil {
		return render.Result{}, manifestFault(req.App, err)
	}
	labels := make(map[string]string, len(req.Labels))
	for _, l := range req.Labels {
		labels[l.Key] = l.Value
	}
	all, err = manifest.Complete(all, manifest.Defaults{Namespace: req.Namespace, Labels: labels, Scopes: manifest.ScopesOf(all), Stamp: true})
	if err != nil {
		return render.Result{}, manifestFault(req.App, err)
	}
	var s resultSplitter
	for _, o := range all {
		s.add(o, fromDir[o.Source])
	}
	if err := s.finish(); err != nil {
		return render.Result{}, manifestFault(req.App, err)
	}
	return s.Result, nil
}

// parseAll parses all texts, so that one error reports all problems. It also returns which
// files are in crds/.
func parseAll(texts []renderedText) (all []manifest.Object, fromDir map[string]bool, err error) {
	fromDir = map[string]bool{}
	var bad manifest.Problems
	for _, t := range texts {
		objects, err := manifest.Parse(t.file, []byte(t.content))
		if p, ok := errors.AsType[manifest.Problems](err); ok {
			bad = append(bad, rendered(p, t)...)
		}
		all = append(all, objects...)
		fromDir[t.file] = t.crd
	}
	if len(bad) > 0 {
		return nil, nil, bad
	}
	return all, fromDir, nil
}

// rendered marks problems whose lines count in a template's output.
func rendered(problems manifest.Problems, t renderedText) manifest.Problems {
	if t.crd {
		return problems
	}
	for i := range problems {
		if problems[i].Line > 0 {
			problems[i].Reason += " (the line counts in the template's output)"
		}
	}
	return problems
}

// manifestFault makes an error of package manifest readable. It names the first file; the
// text lists the others.
func manifestFault(app string, err error) error {
	problems, ok := errors.AsType[manifest.Problems](err)
	if !ok || len(problems) == 0 {
		return (&render.Fault{App: app, Reason: err.Error()}).Invalid()
	}
	first := problems[0]
	f := &render.Fault{App: app, File: first.Source, Line: first.Line, Reason: first.Reason}
	if first.Document > 1 {
		f.Reason = fmt.Sprintf("document %d: %s", first.Document, first.Reason)
	}
	for i, p := range problems[1:] {
		if i == maxListed {
			f.Reason += fmt.Sprintf("\nand %d more", len(problems)-1-i)
			break
		}
		f.Reason += "\n" + p.Error()
	}
	return f.Invalid()
}

// maxListed bounds the problems that an error lists after the first.
const maxListed = 20

// resultSplitter sorts objects into a result.
type resultSplitter struct {
	render.Result
	legacy []manifest.Object // CRDs by Helm 2's hook
}

func (s *resultSplitter) find(o manifest.Object, text string) {
	s.Findings = append(s.Findings, o.Source+": "+o.ID.String()+": "+text)
}

// add adds one object to its part of the result.
func (s *resultSplitter) add(o manifest.Object, fromDir bool) {
	notes := o.Annotations()
	if strings.EqualFold(strings.TrimSpace(notes[keepPolicy]), "keep") {
		s.find(o, "asks to be kept when the app is removed ("+keepPolicy+": keep)")
	}
	events, isHook := notes[hookEvents]
	switch {
	case isHook && !fromDir:
		s.hook(o, list(events), notes)
	case manifest.IsCRD(o.ID):
		s.CRDs = append(s.CRDs, o)
	default:
		s.Objects = append(s.Objects, o)
	}
}

// hook adds an object with events. As in Helm, an object with an unknown event is omitted,
// but with a finding.
func (s *resultSplitter) hook(o manifest.Object, events []string, notes map[string]string) {
	unknown := func(e string) bool { return !slices.Contains(knownEvents, e) }
	switch {
	case slices.ContainsFunc(events, unknown) || len(events) == 0:
		s.find(o, fmt.Sprintf("is left out: Helm knows no hook %q", notes[hookEvents]))
		return
	case slices.Contains(events, crdInstall):
		s.legacy = append(s.legacy, o)
		return
	}
	h := render.Hook{Object: o, Events: events, DeletePolicies: list(notes[hookDelete])}
	if text, ok := notes[hookWeight]; ok {
		var err error
		if h.Weight, err = strconv.Atoi(strings.TrimSpace(text)); err != nil {
			h.Weight = 0
			s.find(o, fmt.Sprintf("has weight 0: %s %q is no integer", hookWeight, text))
		}
	}
	s.Hooks = append(s.Hooks, h)
}

// list reads a comma-separated annotation.
func list(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.ToLower(strings.TrimSpace(part)); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// finish sorts the result and refuses objects that occur twice. A CRD of Helm 2's hook is
// dropped if crds/ has the same CRD: charts for both versions have it twice.
func (s *resultSplitter) finish() error {
	for _, o := range s.legacy {
		same := func(c manifest.Object) bool { return c.ID.Kind == o.ID.Kind && c.ID.Name == o.ID.Name }
		if !slices.ContainsFunc(s.CRDs, same) {
			s.CRDs = append(s.CRDs, o)
		}
	}
	if err := manifest.Unique(slices.Concat(s.CRDs, s.Objects)); err != nil {
		return err
	}
	manifest.Sort(s.CRDs)
	manifest.Sort(s.Objects)
	slices.Sort(s.Findings)
	slices.SortStableFunc(s.Hooks, func(a, b render.Hook) int {
		return cmp.Or(cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Object.ID.Name, b.Object.ID.Name), manifest.Compare(a.Object.ID, b.Object.ID))
	})
	return nil
}
