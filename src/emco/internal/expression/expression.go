// Package expression compiles and evaluates expressions in CEL. Each evaluation ends: sizes and costs are bounded,
// whatever an expression reads.
package expression

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Limits of an expression and of one evaluation.
const (
	MaxText   = 4096
	MaxCost   = 100_000 // CEL's units: about one for each operation, and for each ten bytes of a text
	maxNested = 50      // levels of parentheses and calls
	interrupt = 100     // iterations between looks at the context
)

// Type is the type of a value that expressions read.
type Type int

// The types.
const (
	Any   Type = iota // known when it is read
	Map               // names with values of any type
	Texts             // names with texts
)

func (t Type) cel() *cel.Type {
	switch t {
	case Map:
		return cel.MapType(cel.StringType, cel.DynType)
	case Texts:
		return cel.MapType(cel.StringType, cel.StringType)
	}
	return cel.DynType
}

// Expression is a compiled expression. It may be evaluated by several goroutines.
type Expression struct{ program cel.Program }

// Compile reads an expression over the values that names lists. The error is Invalid.
func Compile(text string, names map[string]Type) (Expression, error) {
	e, _, err := compile(text, names)
	return e, err
}

// CompileCondition is Compile for an expression that is true or false.
func CompileCondition(text string, names map[string]Type) (Expression, error) {
	e, result, err := compile(text, names)
	if err == nil && !result.IsExactType(cel.BoolType) {
		err = errs.New(errs.Invalid, fmt.Sprintf("the expression is a %s, not true or false; compare it with something, such as == true", result))
	}
	return e, err
}

func compile(text string, names map[string]Type) (Expression, *cel.Type, error) {
	if len(text) > MaxText {
		return Expression{}, nil, errs.New(errs.Invalid, fmt.Sprintf("the expression has %d bytes, at most %d are allowed", len(text), MaxText))
	}
	options := []cel.EnvOption{
		cel.CrossTypeNumericComparisons(true), cel.ParserExpressionSizeLimit(MaxText), cel.ParserRecursionLimit(maxNested),
	}
	for name, t := range names {
		options = append(options, cel.Variable(name, t.cel()))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return Expression{}, nil, errs.E(errs.Internal, "prepare", "CEL", err)
	}
	tree, issues := env.Compile(text)
	if issues.Err() != nil {
		return Expression{}, nil, errs.New(errs.Invalid, "the expression is no CEL: "+oneLine(issues.Err()))
	}
	program, err := env.Program(tree, cel.CostLimit(MaxCost), cel.CostTracking(costs{}), cel.CustomDecoratorV2(boundComparisons), cel.InterruptCheckFrequency(interrupt))
	if err != nil {
		return Expression{}, nil, errs.New(errs.Invalid, "the expression cannot be evaluated: "+oneLine(err))
	}
	return Expression{program}, tree.OutputType(), nil
}

// Value evaluates the expression with the values of its names, and returns the result and its cost in CEL's units. A
// value may be a func() any, which is called when it is read. The error is Invalid: the values lack what the expression reads, or
// the evaluation costs too much.
func (e Expression) Value(ctx context.Context, values map[string]any) (value any, cost uint64, err error) {
	out, details, err := e.program.ContextEval(ctx, values)
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	if err != nil {
		return nil, cost, errs.New(errs.Invalid, "evaluate the expression: "+oneLine(err))
	}
	return out, cost, nil
}

// Holds evaluates an expression that is true or false, as Value.
func (e Expression) Holds(ctx context.Context, values map[string]any) (holds bool, cost uint64, err error) {
	value, cost, err := e.Value(ctx, values)
	if err != nil {
		return false, cost, err
	}
	is, ok := value.(types.Bool)
	if !ok {
		return false, cost, errs.New(errs.Invalid, "the expression is neither true nor false")
	}
	return bool(is), cost, nil
}

// Failed is a value that fails the evaluation of each expression that reads it.
func Failed(err error) any { return types.WrapErr(err) }

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
