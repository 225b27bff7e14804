// Package peers has what the benchmarks compare: the ways to deliver a desired state (world.World). A Peer writes it to Git, or to
// an API server; an Edge brings it to real clusters. It also measures the processor time and the memory of processes.
package peers

import (
	"context"
	"time"

	"github.com/emco-orchestrator/emco/scripts/bench/site"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// Peer writes a world. It serves one story and then closes. Callers call its methods one after the
// other.
type Peer interface {
	// Prepare creates everything that exists before the first change. If base is not nil, the branch
	// then contains base; otherwise the first change is the installation.
	Prepare(ctx context.Context, s world.Spec, base *world.World) error
	// Apply carries out a change. It returns when the change is durable by the peer's own definition,
	// with its cost.
	Apply(ctx context.Context, t Turn) (Cost, error)
	// Probe returns the desired state as a cluster would read it.
	Probe(ctx context.Context) (world.State, error)
	// Close checks for damage, ends everything that Prepare started, and removes it.
	Close(ctx context.Context) error
}

// Turn is a change with its files.
type Turn struct {
	world.Change
	Pairs []world.Pair // the changed pairs, in their new state
	World *world.World // in its new state
}

// Cost is the cost of a change.
type Cost struct {
	Took  time.Duration // zero: the time of Apply
	Calls int           // of a provider's API
	// Virtual is the additional waiting time for the provider's limits.
	Virtual time.Duration
	Renders int           // of charts; -1 if it renders none
	Peak    int64         // bytes of resident memory; 0 without its own process
	CPU     time.Duration // of its own running process
}

// Hosted is a Peer at a provider with limits, where many callers may change single files concurrently.
type Hosted interface {
	Peer
	Put(ctx context.Context, path string, text []byte) error
	// Measure returns a function that returns the cost of the calls since Measure.
	Measure() (spent func() Cost)
	CallsPerHour() int
	Site() *site.Site
}

// Wanter is a Peer whose state does not consist of the world's own files.
type Wanter interface {
	// Want is the expected result of Probe for a world.
	Want(w *world.World) world.State
}

// Maker makes a new peer with its data below a folder.
type Maker struct {
	Name string
	// Only reports whether the peer can write a world; nil means all.
	Only func(world.Spec) bool
	New  func(dir string) Peer
}

// ownFiles is the cost of peers that run in this process and render nothing.
var ownFiles = Cost{Renders: -1}
