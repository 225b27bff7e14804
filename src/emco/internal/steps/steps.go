// Package steps says in which steps a pair, one app on one cluster, comes from what it
// holds to what it shall hold. It is a pure function: the same way has the same steps,
// in every process and after every crash.
//
//	install, upgrade, rollback   [Clear] [Define] Run… Main Run… [Tidy]
//	delete                       [Clear] Run… Main Run… [Tidy]
//
// Without hooks there is Main alone, or Define and Main if definitions or namespaces
// are new and something needs them. What a step needs to be reported before the next
// one begins is part of it.
package steps

import (
	"slices"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Transition is where a pair comes from and where it goes.
type Transition struct {
	Change appcontext.Change // decides which hooks run; the empty one runs none
	From   appcontext.Bundle // what ran when the way began; empty if nothing did
	To     appcontext.Bundle // what it shall hold; not looked at for a deletion

	// Pulls says that the cluster reads its state from a repository. A Job that has run as
	// a hook must leave it then: the cluster would run it again once it is cleaned up. It
	// changes what steps keep and drop, but neither their number nor their needs.
	Pulls bool
}

// Kind says what a step is for.
type Kind uint8

// The kinds of steps, in the order in which they come.
const (
	Clear  Kind = iota // Jobs and Pods that an earlier run left go
	Define             // definitions and namespaces come, if they are new and needed
	Run                // a hook runs
	Main               // the app's own objects come and what left goes; or all of them go
	Tidy               // hooks that ran go
)

// Need is what must be reported of objects before the next step begins.
type Need uint8

// The needs.
const (
	Nothing  Need = iota
	Ready         // they are Current, in the content that was delivered
	Complete      // the hook has succeeded
	Gone          // they are not there
)

// Step is one step of a way. Sets are in order of application; those of objects that go
// in order of deletion.
type Step struct {
	Kind  Kind
	Event string              // of Run, such as "pre-install"
	Hook  *appcontext.HookRef // of Run
	Keep  []appcontext.Ref    // stays as it is
	Add   []appcontext.Ref    // comes, or changes
	Drop  []appcontext.Ref    // hooks that go
	Need  Need
	About []appcontext.Ref // what Need is about
}

// Set returns all that the cluster shall hold of the app during the step.
func (s Step) Set() []appcontext.Ref { return merge(s.Keep, s.Add) }

// AfterFailure returns what is to be done once the hook of a Run has failed: by its
// delete policy it goes or stays.
func (s Step) AfterFailure() (Step, bool) {
	if s.Hook == nil || !asks(*s.Hook, "hook-failed") {
		return s, false
	}
	return Step{Kind: Tidy, Keep: s.Keep, Drop: []appcontext.Ref{s.Hook.Ref}}, true
}

// String names what is worked on, such as "pre-install hook Job migrate".
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

// Of returns the steps of a way, at least one. Only the last one has no need.
func Of(w Transition) []Step {
	p := &stepPlanner{pulls: w.Pulls, ran: map[objectKey]bool{}}
	if w.Change == appcontext.Remove {
		p.remove(w)
	} else {
		p.bring(w)
	}
	return p.steps
}

// Settled returns all that is to be there of a bundle once it is there: definitions,
// objects, and hooks that last.
//
// A hook lasts if it comes with an installation, does not end as Jobs and Pods do, and
// is not to be deleted when it is there: a ServiceAccount, say. Others of the app need
// it, so it is kept as its bundle has it from then on.
func Settled(b appcontext.Bundle) []appcontext.Ref { return merge(lasting(b), own(b)) }

// own returns a bundle's definitions and objects.
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

// Ends reports whether an object runs and comes to an end, good or bad.
func Ends(id manifest.ID) bool {
	return id.Group == "batch" && id.Kind == "Job" || id.Group == "" && id.Kind == "Pod"
}

// Key tells objects apart, whatever the version of their API.
func Key(id manifest.ID) manifest.ID {
	id.Version = ""
	return id
}

type objectKey = manifest.ID // without version

// merge returns refs with others in the place of those with the same key, and after them.
func merge(refs, others []appcontext.Ref) []appcontext.Ref {
	return append(without(refs, others), others...)
}

// without returns the refs of which the key is not among others.
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
