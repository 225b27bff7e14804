// Package condition evaluates the conditions of policy intents: expressions over an event.
package condition

import (
	"context"

	"github.com/emco-orchestrator/emco/src/emco/internal/expression"
)

// Input is what an expression knows.
type Input struct {
	Event map[string]any    // event.id, event.agent, event.data
	Group map[string]string // group.project, group.compositeApp, group.version, group.name
}

// Condition is an expression that is true or false.
type Condition struct{ expression expression.Expression }

// Compile reads an expression. The error is Invalid.
func Compile(text string) (Condition, error) {
	e, err := expression.CompileCondition(text, map[string]expression.Type{"event": expression.Map, "group": expression.Texts})
	return Condition{e}, err
}

// Holds evaluates the condition. The error is Invalid: the event lacks what the expression reads, or the evaluation
// costs too much.
func (c Condition) Holds(ctx context.Context, in Input) (bool, error) {
	holds, _, err := c.expression.Holds(ctx, map[string]any{"event": in.Event, "group": in.Group})
	return holds, err
}
