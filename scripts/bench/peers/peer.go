// Package peers are those who write a world to Git, each in its own way, behind one
// interface.
package peers

import (
	"context"
	"time"

	"github.com/emco-orchestrator/emco/scripts/bench/site"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// Peer writes a world. It is used for one story and then closed. Its methods are called
// one after the other.
type Peer interface {
	// Prepare makes all that is there before the first change. If base is not nil, that is
	// what is on the branch by then; else the first change is the installation.
	Prepare(ctx context.Context, s world.Spec, base *world.World) error
	// Apply carries out a change. It returns when the change is durable by the peer's own
	// definition, and what it cost.
	Apply(ctx context.Context, t Turn) (Cost, error)
	// Probe returns what is desired now, as a cluster would read it.
	Probe(ctx context.Context) (world.State, error)
	// Close ends what Prepare began, after a last look for damage, and takes it away.
	Close(ctx context.Context) error
}

// Turn is a change that is ready to be written.
type Turn struct {
	world.Change
	Pairs []world.Pair // that are different from before, as they are now
	World *world.World // as it is now
}

// Cost is what a change took.
type Cost struct {
	Took  time.Duration // zero: as long as Apply
	Calls int           // of a provider's API
	// Virtual is how long the provider's limits make it wait besides.
	Virtual time.Duration
	Renders int           // of charts; -1 if it renders none
	Peak    int64         // bytes of resident memory; 0 if it is no process of its own
	CPU     time.Duration // of a process of its own that still runs
}

// Hosted is a Peer at a provider with limits, where many callers may change single files at
// once.
type Hosted interface {
	Peer
	Put(ctx context.Context, path string, text []byte) error
	// Measure returns what the calls cost that are made until the function is called that it returns.
	Measure() (spent func() Cost)
	CallsPerHour() int
	Site() *site.Site
}

// Wanter is a Peer whose state is not made of the world's own files.
type Wanter interface {
	// Want is what Probe has to return when the world is as given.
	Want(w *world.World) world.State
}

// Maker makes a fresh peer that keeps its data below a folder.
type Maker struct {
	Name string
	// Only says which worlds the peer can write; nil means all.
	Only func(world.Spec) bool
	New  func(dir string) Peer
}

// ownFiles is the cost of peers that are part of this process and render nothing.
var ownFiles = Cost{Renders: -1}
