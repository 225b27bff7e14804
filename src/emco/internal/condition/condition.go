// Package condition evaluates the conditions of policy intents: expressions in CEL over an event, which cannot
// loop, and whose costs are bounded.
package condition

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Limits of an expression and of one evaluation.
const (
	MaxText   = 4096
	maxNested = 50      // levels of parentheses and calls
	maxCost   = 100_000 // CEL's units: about one for each operation, and for each ten bytes of a text
	interrupt = 100     // iterations between looks at the context
)

// Input is what an expression knows.
type Input struct {
	Event map[string]any    // event.id, event.agent, event.data
	Group map[string]string // group.project, group.compositeApp, group.version, group.name
}

// Condition is an expression that is true or false.
type Condition struct{ program cel.Program }

// Compile reads an expression. The error is Invalid.
func Compile(text string) (Condition, error) {
	if len(text) > MaxText {
		return Condition{}, errs.New(errs.Invalid, fmt.Sprintf("the expression has %d bytes, at most %d are allowed", len(text), MaxText))
	}
	env, err := cel.NewEnv(
		cel.Variable("event", cel.MapType(cel.StringType, cel.DynType)), cel.Variable("group", cel.MapType(cel.StringType, cel.StringType)),
		cel.CrossTypeNumericComparisons(true), cel.ParserExpressionSizeLimit(MaxText), cel.ParserRecursionLimit(maxNested),
	)
	if err != nil {
		return Condition{}, errs.E(errs.Internal, "prepare", "CEL", err)
	}
	tree, issues := env.Compile(text)
	if issues.Err() != nil {
		return Condition{}, errs.New(errs.Invalid, "the expression is no CEL: "+strings.Join(strings.Fields(issues.Err().Error()), " "))
	}
	if !tree.OutputType().IsExactType(cel.BoolType) {
		return Condition{}, errs.New(errs.Invalid, fmt.Sprintf("the expression is a %s, not true or false; compare it with something, such as == true", tree.OutputType()))
	}
	program, err := env.Program(tree, cel.CostLimit(maxCost), cel.InterruptCheckFrequency(interrupt))
	if err != nil {
		return Condition{}, errs.New(errs.Invalid, "the expression cannot be evaluated: "+err.Error())
	}
	return Condition{program}, nil
}

// Holds evaluates the condition. The error is Invalid: the event lacks what the expression reads, or the evaluation
// costs too much.
func (c Condition) Holds(ctx context.Context, in Input) (bool, error) {
	out, _, err := c.program.ContextEval(ctx, map[string]any{"event": in.Event, "group": in.Group})
	if err != nil {
		return false, errs.New(errs.Invalid, "evaluate the expression: "+strings.Join(strings.Fields(err.Error()), " "))
	}
	holds, ok := out.Value().(bool)
	if !ok {
		return false, errs.New(errs.Invalid, "the expression is neither true nor false")
	}
	return holds, nil
}
