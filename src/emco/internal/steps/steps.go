// Package steps plans the steps that change a pair, one app on one cluster, from what it
// holds to what it should hold. It is a pure function: a transition has the same steps in
// every process and after every crash.
//
//	install, upgrade, rollback   [Clear] [Define] Run… Main Run… [Tidy]
//	delete                       [Clear] Run… Main Run… [Tidy]
//
// Without hooks there is only Main, preceded by Define if something needs CRDs or
// namespaces that are new. Each step names what must be reported before the next one
// starts.
package steps

import (
	"slices"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Transition is a pair's change from one bundle to another.
type Transition struct {
	Change appcontext.Change // decides which hooks run; the empty one runs none
	From   appcontext.Bundle // the bundle at the start; empty if nothing ran
	To     appcontext.Bundle // the bundle at the end; ignored for a deletion

	// Pulls is set if the cluster reads its state from a repository. A Job that ran as a
	// hook must then leave the repository, or the cluster would run it again after its
	// cleanup. Pulls affects what steps keep and drop, but neither their number nor their
	// needs.
	Pulls bool
}

// Kind is the purpose of a step.
type Kind uint8

// The kinds of steps, in the order of a transition.
const (
	Clear  Kind = iota // deletes Jobs and Pods that an earlier run left
	Define             // creates CRDs and namespaces that are new and needed
	Run                // runs a hook
	Main               // applies the app's objects and prunes old ones; or deletes all of them
	Tidy               // deletes hooks that ran
)

// Need is what must be reported about objects before the next step starts.
type Need uint8

// The needs.
const (
	Nothing  Need = iota
	Ready         // they are Current, with the delivered content
	Complete      // the hook has succeeded
	Gone          // they do not exist
)

// Step is one step of a transition. Sets are in order of application; sets of objects to
// delete are in order of deletion.
type Step struct {
	Kind  Kind
	Event string              // of Run, such as "pre-install"
	Hook  *appcontext.HookRef // of Run
	Keep  []appcontext.Ref    // stays as it is
	Add   []appcontext.Ref    // is created or changed
	Drop  []appcontext.Ref    // hooks to delete
	Need  Need
	About []appcontext.Ref // the objects of Need
}

// Set returns everything that the cluster should hold of the app during the step.
func (s Step) Set() []appcontext.Ref { return merge(s.Keep, s.Add) }

// AfterFailure returns the step after the hook of a Run has failed, if the hook's delete
// policy asks for its deletion.
func (s Step) AfterFailure() (Step, bool) {
	if s.Hook == nil || !asks(*s.Hook, "hook-failed") {
		return s, false
	}
	return Step{Kind: Tidy, Keep: s.Keep, Drop: []appcontext.Ref{s.Hook.Ref}}, true
}

// String names the objects of the step, such as "pre-install hook Job migrate".
func (s Step) String() string {
	switch s.Kind {
	case Clear:
		return "hooks of an earlier run"
	case Define:
		return "definitions and namespaces"
	case Run:
		return s.Event + " hook " + s.Hook.Kind + " " + s.Hook.Name
	case Tidy:
		return "hooks that have run"
	}
	return "the app's objects"
}

// Of returns the steps of a transition, at least one. Only the last one has no need.
func Of(w Transition) []Step {
	p := &stepPlanner{pulls: w.Pulls, ran: map[objectKey]bool{}}
	if w.Change == appcontext.Remove {
		p.remove(w)
	} else {
		p.bring(w)
	}
	return p.steps
}

// Settled returns everything that a bundle leaves on a cluster permanently: CRDs, objects,
// and hooks that last.
//
// A hook lasts if it is installed with the app, does not end as Jobs and Pods do, and is
// not deleted on success. An example is a ServiceAccount. Others of the app need it, so it
// is kept in the form of its bundle.
func Settled(b appcontext.Bundle) []appcontext.Ref { return merge(lasting(b), own(b)) }

// own returns a bundle's CRDs and objects.
func own(b appcontext.Bundle) []appcontext.Ref { return merge(b.CRDs, b.Objects) }

func lasting(b appcontext.Bundle) []appcontext.Ref {
	var out []appcontext.Ref
	for _, h := range b.Hooks {
		comes := slices.Contains(h.Events, "pre-install") || slices.Contains(h.Events, "post-install")
		if comes && !Ends(h.ID) && !asks(h, "hook-succeeded") {
			out = merge(out, []appcontext.Ref{h.Ref})
		}
	}
	return out
}

// Ends reports whether an object runs and ends, successfully or not.
func Ends(id manifest.ID) bool {
	return id.Group == "batch" && id.Kind == "Job" || id.Group == "" && id.Kind == "Pod"
}

// Key returns the id without the version of the API: it identifies an object in all
// versions.
func Key(id manifest.ID) manifest.ID {
	id.Version = ""
	return id
}

type objectKey = manifest.ID // without version

// merge returns refs and others; of two with equal keys it keeps that of others.
func merge(refs, others []appcontext.Ref) []appcontext.Ref {
	return append(without(refs, others), others...)
}

// without returns the refs whose keys are not among others.
func without(refs, others []appcontext.Ref) []appcontext.Ref {
	leave := make(map[objectKey]bool, len(others))
	for _, r := range others {
		leave[Key(r.ID)] = true
	}
	out := make([]appcontext.Ref, 0, len(refs)+len(others))
	for _, r := range refs {
		if !leave[Key(r.ID)] {
			out = append(out, r)
		}
	}
	return out
}
