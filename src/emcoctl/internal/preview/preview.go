// Package preview prints plans, which say what an action would do, as tables for people and as
// unified diffs. It also prints the difference of a document and a file; package apply finds it.
package preview

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
)

// Options configure the output.
type Options struct {
	All    bool // name every cluster, and objects that are kept
	Colour bool
}

// named is how many clusters of a row are named.
const named = 3

// signs mark the changes of objects.
var signs = map[string]string{v2.ChangeAdd: "+", v2.ChangeChange: "~", v2.ChangeRemove: "-", v2.ChangeKeep: "="}

// Plan prints a plan: the placements of each app with their reasons, the changes of its
// objects, and what is wrong. path is the deployment's.
func Plan(w io.Writer, path string, p v2.Plan, o Options) {
	pr := planPrinter{w: w, o: o}
	pr.line("%s", title(path, p))
	pr.placements(p)
	pr.objects(p)
	pr.remarks(p)
	pr.line("")
	pr.line("%s", Summary(p))
	if p.Digest != "" {
		pr.line("plan: %s", p.Digest)
	}
	if p.Confirm != "" {
		pr.line("needs --force: %s", p.Confirm)
	}
}

// title names the plan; for a migration, with the group that takes over.
func title(path string, p v2.Plan) string {
	name := v2.ShortName(path)
	text := fmt.Sprintf("%s of %s: revision %d", p.Action, name, p.Revision)
	if p.Action == "migrate" {
		text = fmt.Sprintf("migrate of %s to %s/%s: its revision %d", name, p.CompositeAppVersion, p.Name, p.Revision)
	}
	if p.From > 0 {
		text += fmt.Sprintf(" after revision %d", p.From)
	}
	return text
}

// Summary counts in one line.
func Summary(p v2.Plan) string {
	s := p.Summary
	text := fmt.Sprintf("placements: %d to add, %d to change, %d to remove, %d to keep", s.Add, s.Change, s.Remove, s.Keep)
	if s.Failed > 0 {
		text += fmt.Sprintf("; apps that fail: %d", s.Failed)
	}
	return text
}

type planPrinter struct {
	w io.Writer
	o Options
}

// line prints text of the server, made safe for terminals.
func (p planPrinter) line(format string, args ...any) {
	fmt.Fprintln(p.w, strings.TrimRight(printable.Text(fmt.Sprintf(format, args...)), " "))
}

// placementRow is the clusters of a class that have one reason.
type placementRow struct {
	change, reason string
	clusters       []string
}

func rows(c v2.PlanClass) (out []placementRow) {
	for _, at := range c.Clusters {
		i := slices.IndexFunc(out, func(r placementRow) bool { return r.reason == at.Reason })
		if i < 0 {
			i = len(out)
			out = append(out, placementRow{change: c.Change, reason: at.Reason})
		}
		out[i].clusters = append(out[i].clusters, at.Cluster)
	}
	return out
}

func (p planPrinter) placements(plan v2.Plan) {
	if !slices.ContainsFunc(plan.Apps, func(a v2.AppPlan) bool { return len(a.Classes) > 0 }) {
		return
	}
	p.line("")
	t := output.NewTable(p.w)
	for _, head := range []string{"APP", "CHANGE", "CLUSTERS", "WHERE", "WHY"} {
		t.Cell(head)
	}
	t.End()
	for _, a := range plan.Apps {
		for _, c := range a.Classes {
			for _, r := range rows(c) {
				for _, cell := range []string{a.Name, r.change, fmt.Sprint(len(r.clusters)), p.where(r.clusters), r.reason} {
					t.Cell(cell)
				}
				t.End()
			}
		}
	}
	t.Flush()
}

// where names the first few clusters, or all.
func (p planPrinter) where(clusters []string) string {
	if p.o.All || len(clusters) <= named {
		return strings.Join(clusters, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(clusters[:named], ", "), len(clusters)-named)
}

// objects lists what changes on the clusters of each class.
func (p planPrinter) objects(plan v2.Plan) {
	for _, a := range plan.Apps {
		for _, c := range a.Classes {
			var shown []v2.ObjectChange
			for _, o := range c.Objects {
				if p.o.All || o.Change != v2.ChangeKeep {
					shown = append(shown, o)
				}
			}
			if len(shown) == 0 {
				continue
			}
			p.line("")
			p.line("%s: %s on %s", a.Name, c.Change, p.where(clustersOf(c)))
			for _, o := range shown {
				p.line("  %s %s", signs[o.Change], objectName(o))
			}
		}
	}
}

func clustersOf(c v2.PlanClass) []string {
	out := make([]string, len(c.Clusters))
	for i, at := range c.Clusters {
		out[i] = at.Cluster
	}
	return out
}

// objectName returns "Kind namespace/name", with its events if it is a hook.
func objectName(o v2.ObjectChange) string {
	name := o.GVK.Kind + " " + o.Name
	if o.Namespace != "" {
		name = o.GVK.Kind + " " + o.Namespace + "/" + o.Name
	}
	if o.Hook != "" {
		name += " (hook " + o.Hook + ")"
	}
	return name
}

// remarks prints errors and notes.
func (p planPrinter) remarks(plan v2.Plan) {
	begun := false
	say := func(format string, args ...any) {
		if !begun {
			p.line("")
		}
		begun = true
		p.line("%s", printable.Line(fmt.Sprintf(format, args...)))
	}
	for _, a := range plan.Apps {
		if f := a.Failure; f != nil {
			say("app %s fails: %s%s", a.Name, strings.TrimPrefix(f.File+": ", ": "), f.Reason)
		}
		for _, f := range a.Findings {
			say("app %s: %s", a.Name, f)
		}
		for _, d := range a.DependsOn {
			say("app %s waits until %s is %s%s", a.Name, d.App, strings.ToLower(d.Status), seconds(d.Wait))
		}
		if a.LeaveLast {
			say("app %s is removed from clusters only when it is ready on the others", a.Name)
		}
		if a.Rollout != nil {
			say("app %s changes in waves: %s", a.Name, waves(*a.Rollout))
		}
		for _, reason := range refusals(a.Refused) {
			say("app %s not on %s: %s", a.Name, p.where(reason.clusters), reason.reason)
		}
	}
	for _, n := range plan.Notes {
		say("note: %s", n)
	}
}

func seconds(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", then %d seconds more", n)
}

// waves returns "1 cluster, label canary (then it pauses), 25 %, the rest; each starts …".
func waves(r v2.Rollout) string {
	var parts []string
	for _, w := range r.Waves {
		part := fmt.Sprintf("%d clusters", w.Clusters)
		switch {
		case w.ClusterLabel != "":
			part = "label " + w.ClusterLabel
		case w.Percent > 0:
			part = fmt.Sprintf("%d %%", w.Percent)
		case w.Clusters == 1:
			part = "1 cluster"
		}
		var after []string
		if w.Bake != nil {
			after = append(after, fmt.Sprintf("%d seconds", *w.Bake))
		}
		if w.Pause {
			after = append(after, "it pauses")
		}
		if len(after) > 0 {
			part += " (then " + strings.Join(after, ", ") + ")"
		}
		parts = append(parts, part)
	}
	text := strings.Join(append(parts, "the rest"), ", ")
	if r.Bake > 0 {
		return text + fmt.Sprintf("; each starts when the previous one has been ready for %d seconds", r.Bake)
	}
	return text + "; each starts when the previous one is ready"
}

// refusals groups clusters by reason, in order of the first cluster.
func refusals(all []v2.PlanRefusal) (out []placementRow) {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b v2.PlanRefusal) int { return cmp.Compare(a.Cluster, b.Cluster) })
	for _, r := range sorted {
		i := slices.IndexFunc(out, func(o placementRow) bool { return o.reason == r.Reason })
		if i < 0 {
			i = len(out)
			out = append(out, placementRow{reason: r.Reason})
		}
		out[i].clusters = append(out[i].clusters, r.Cluster)
	}
	return out
}
