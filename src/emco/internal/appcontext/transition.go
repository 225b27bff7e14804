package appcontext

import "github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"

// Earlier names, for callers that still use them.
type (
	Relocation = gitstate.Relocation
	MoveStage  = gitstate.MoveStage
)

// The stages of moves.
const (
	MoveAsked   = gitstate.MoveAsked
	MoveWritten = gitstate.MoveWritten
	MoveTaken   = gitstate.MoveTaken
	MoveDone    = gitstate.MoveDone
	MoveLeft    = gitstate.MoveLeft
)
