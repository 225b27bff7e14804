package steps

import (
	"cmp"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// stepPlanner collects the steps of a transition.
type stepPlanner struct {
	pulls bool
	base  []appcontext.Ref // objects that are complete: the app's own, and hooks that last
	left  []appcontext.Ref // hooks that ran and stay
	drop  []appcontext.Ref // hooks that ran and go with the next step
	ran   map[objectKey]bool
	steps []Step
}

// bring plans an installation, an upgrade or a rollback. Hooks that run after it wait until
// the app is ready; CRDs need no second wait.
func (p *stepPlanner) bring(w Transition) {
	p.base = Settled(w.From)
	pre, post := hooksOf(w.To, w.Change, "pre-"), hooksOf(w.To, w.Change, "post-")
	p.clear(slices.Concat(pre, post))
	if d := missing(w.From, w.To); len(d) > 0 {
		p.add(Step{Kind: Define, Add: d, Need: Ready, About: d})
		p.base = merge(p.base, d)
	}
	p.runAll("pre-"+string(w.Change), pre)
	p.main(w.To, post)
	if len(post) > 0 {
		p.runAll("post-"+string(w.Change), post)
		p.settle(w.To)
		p.add(Step{Kind: Tidy})
	}
}

// main adds the step that delivers a bundle's objects, except hooks that ran before it or
// run after it.
func (p *stepPlanner) main(to appcontext.Bundle, post []appcontext.HookRef) {
	s := Step{Kind: Main, Add: without(Settled(to), append(refsOf(post), without(p.left, own(to))...))}
	if len(post) > 0 {
		s.Need, s.About = Ready, to.Objects
	} else {
		p.settle(to)
	}
	p.base = nil
	p.add(s)
	p.base = s.Add
}

// settle drops the hooks that a repository must not hold after the transition.
func (p *stepPlanner) settle(to appcontext.Bundle) {
	if p.pulls {
		over := without(p.left, Settled(to))
		p.left, p.drop = without(p.left, over), merge(p.drop, over)
	}
}

// remove plans a deletion. It does not wait for CRDs, which may stay.
func (p *stepPlanner) remove(w Transition) {
	p.base = Settled(w.From)
	pre, post := hooksOf(w.From, w.Change, "pre-"), hooksOf(w.From, w.Change, "post-")
	p.clear(slices.Concat(pre, post))
	p.runAll("pre-delete", pre)
	last := Step{Kind: Main}
	if len(post) > 0 {
		last.Kind = Tidy
		p.base = without(p.base, own(w.From))
		p.add(Step{Kind: Main, Need: Gone, About: reversed(w.From.Objects)})
		p.runAll("post-delete", post)
	}
	p.base, p.left = nil, nil
	p.add(last)
}

// hooksOf returns the hooks of a bundle for one side of a change, by weight and name. An
// unknown change has none.
func hooksOf(b appcontext.Bundle, c appcontext.Change, side string) []appcontext.HookRef {
	var out []appcontext.HookRef
	for _, h := range b.Hooks {
		if c != "" && slices.Contains(h.Events, side+string(c)) {
			out = append(out, h)
		}
	}
	slices.SortStableFunc(out, func(a, b appcontext.HookRef) int {
		return cmp.Or(cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func refsOf(hooks []appcontext.HookRef) (out []appcontext.Ref) {
	for _, h := range hooks {
		out = merge(out, []appcontext.Ref{h.Ref})
	}
	return out
}

// clear adds a step that deletes Jobs and Pods before they run again: otherwise reports
// about an earlier run would count for this one.
func (p *stepPlanner) clear(hooks []appcontext.HookRef) {
	refs := slices.DeleteFunc(refsOf(hooks), func(r appcontext.Ref) bool { return !Ends(r.ID) })
	if len(refs) == 0 {
		return
	}
	p.left = without(p.left, refs)
	p.drop = merge(p.drop, refs)
	p.add(Step{Kind: Clear, Need: Gone, About: reversed(refs)})
}

func (p *stepPlanner) runAll(event string, hooks []appcontext.HookRef) {
	for _, h := range hooks {
		if p.ran[Key(h.ID)] {
			p.clear([]appcontext.HookRef{h})
		}
		p.ran[Key(h.ID)] = true
		p.add(Step{Kind: Run, Event: event, Hook: &h, Add: []appcontext.Ref{h.Ref}, Need: Complete, About: []appcontext.Ref{h.Ref}})
		if p.pulls && Ends(h.ID) || asks(h, "hook-succeeded") {
			p.drop = append(p.drop, h.Ref)
		} else {
			p.left = merge(p.left, []appcontext.Ref{h.Ref})
		}
	}
}

// asks reports whether a hook has a delete policy.
func asks(h appcontext.HookRef, policy string) bool { return slices.Contains(h.DeletePolicies, policy) }

// add sets what a step keeps and drops, and appends it.
func (p *stepPlanner) add(s Step) {
	s.Keep = without(merge(p.left, p.base), s.Add)
	s.Drop = without(reversed(p.drop), slices.Concat(s.Keep, s.Add))
	p.drop = nil
	p.steps = append(p.steps, s)
}

func reversed(refs []appcontext.Ref) []appcontext.Ref {
	out := slices.Clone(refs)
	slices.Reverse(out)
	return out
}

// missing returns the CRDs and namespaces of a bundle that do not exist yet and that
// something in the bundle needs. A changed CRD counts as missing; a namespace exists
// regardless of its content.
func missing(from, to appcontext.Bundle) []appcontext.Ref {
	there, groups, namespaces := contents(from), map[string]bool{}, map[string]bool{}
	use := func(r appcontext.Ref) { groups[r.Group], namespaces[r.Namespace] = true, true }
	for _, r := range to.Objects {
		use(r)
	}
	for _, h := range to.Hooks {
		use(h.Ref)
	}
	var out []appcontext.Ref
	for _, r := range to.CRDs {
		_, group, _ := strings.Cut(r.Name, ".") // <plural>.<group>
		if groups[group] && there[Key(r.ID)] != r.Digest {
			out = append(out, r)
		}
	}
	for _, r := range to.Objects {
		if isNamespace(r.ID) && namespaces[r.Name] && there[Key(r.ID)] == "" {
			out = append(out, r)
		}
	}
	return out
}

func contents(b appcontext.Bundle) map[objectKey]appcontext.Digest {
	out := make(map[objectKey]appcontext.Digest, len(b.Objects)+len(b.CRDs))
	for _, r := range slices.Concat(b.CRDs, b.Objects) {
		out[Key(r.ID)] = r.Digest
	}
	return out
}

func isNamespace(id manifest.ID) bool { return id.Group == "" && id.Kind == "Namespace" }
