package appcontext

import (
	"context"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
)

// Earlier names, for callers that still use them.
type (
	Team      = shards.Group
	Member    = shards.Member
	Work      = shards.Work
	Sharing   = shards.Runner
	Standing  = shards.Status
	Ownership = shards.Ownership

	Agent           = agents.Agent
	Branch          = gitstate.Branch
	BranchEvent     = gitstate.BranchEvent
	Relocation      = gitstate.Relocation
	RelocationEvent = gitstate.RelocationEvent
	LeftPlace       = gitstate.LeftPlace
	MoveStage       = gitstate.MoveStage
)

// The stages of moves.
const (
	MoveAsked   = gitstate.MoveAsked
	MoveWritten = gitstate.MoveWritten
	MoveTaken   = gitstate.MoveTaken
	MoveDone    = gitstate.MoveDone
	MoveLeft    = gitstate.MoveLeft
)

// Share is ShardRunner.
func (s *Store) Share(t Team, me Member, work Work) *Sharing { return s.ShardRunner(t, me, work) }

// Calm is Barrier.
func (s *Store) Calm(ctx context.Context, own Fence) error { return s.Barrier(ctx, own) }
