package appcontext

import (
	"context"

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
)

// Share is ShardRunner.
func (s *Store) Share(t Team, me Member, work Work) *Sharing { return s.ShardRunner(t, me, work) }

// Calm is Barrier.
func (s *Store) Calm(ctx context.Context, own Fence) error { return s.Barrier(ctx, own) }
