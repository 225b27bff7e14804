package expression

import (
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// maxCompared bounds the cost of one comparison. A short expression can make a value that holds itself so often that a look at all
// of its members takes years.
const maxCompared = MaxCost / 10

// What CEL reads for one unit of cost.
const (
	textPerUnit    = 10 // bytes of a text
	patternPerUnit = 4  // bytes of a regular expression
)

// costs is the cost of the calls whose time grows with their values. CEL has such numbers for values whose types are
// known before the evaluation only, and none for values with members.
type costs struct{}

// CallCost returns the cost of a call that has been made; nil for calls that take no more time for large values.
func (costs) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	cost := uint64(1)
	switch function {
	case operators.Equals, operators.NotEquals, operators.In:
		cost += compared(function, args)
	case operators.Add:
		if list, ok := result.(traits.Lister); ok {
			cost += uint64(list.Size().(types.Int))
		} else {
			cost += texts(textPerUnit, result)
		}
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals, overloads.StartsWith, overloads.EndsWith:
		cost += texts(textPerUnit, args...)
	case overloads.Contains:
		cost += texts(textPerUnit, args[:1]...) * (1 + texts(textPerUnit, args[1:]...))
	case overloads.Matches:
		cost += (1 + texts(textPerUnit, args[:1]...)) * (1 + texts(patternPerUnit, args[1:]...))
	case overloads.Size, overloads.TypeConvertBool, overloads.TypeConvertInt, overloads.TypeConvertUint, overloads.TypeConvertDouble,
		overloads.TypeConvertString, overloads.TypeConvertBytes, overloads.TypeConvertDuration, overloads.TypeConvertTimestamp:
		cost += texts(textPerUnit, args...)
	default:
		return nil
	}
	return &cost
}

// texts returns the cost of reading those of the values that are texts.
func texts(perUnit int, values ...ref.Val) (cost uint64) {
	for _, v := range values {
		switch text := v.(type) {
		case types.String:
			cost += uint64(len(text) / perUnit)
		case types.Bytes:
			cost += uint64(len(text) / perUnit)
		}
	}
	return cost
}

// compared returns the cost of a comparison of two values, or somewhat more than maxCompared.
func compared(function string, args []ref.Val) uint64 {
	if len(args) != 2 {
		return 0
	}
	list, ok := args[1].(traits.Lister)
	switch {
	case function == operators.In && !ok: // a map, which finds a key at once
		return texts(textPerUnit, args[0])
	case function == operators.In && !isContainer(args[0]):
		return uint64(list.Size().(types.Int)) * (1 + texts(textPerUnit, args[0]))
	case function == operators.In:
		return weight(list, maxCompared+1)
	}
	return min(weight(args[0], maxCompared+1), weight(args[1], maxCompared+1))
}

func isContainer(v ref.Val) bool {
	switch v.(type) {
	case traits.Lister, traits.Mapper:
		return true
	}
	return false
}

// weight returns the cost of reading a value with all of its members, or somewhat more than most.
func weight(v ref.Val, most uint64) uint64 {
	n := texts(textPerUnit, v)
	switch c := v.(type) {
	case traits.Lister:
		for it := c.Iterator(); n < most && it.HasNext() == types.True; {
			n += 1 + weight(it.Next(), most-n)
		}
	case traits.Mapper:
		for it := c.Iterator(); n < most && it.HasNext() == types.True; {
			n += 1 + weight(c.Get(it.Next()), most-n)
		}
	}
	return n
}

// boundComparisons makes comparisons of large values fail before they begin.
func boundComparisons(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || len(call.Args()) != 2 {
		return i, nil
	}
	switch call.Function() {
	case operators.Equals, operators.NotEquals, operators.In:
		return comparison{call}, nil
	}
	return i, nil
}

// comparison is a comparison within limits.
type comparison struct{ interpreter.InterpretableCall }

// Exec evaluates the operands once, and compares them unless they are too large.
func (c comparison) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	operands := c.Args()
	args := []ref.Val{operands[0].Exec(frame), operands[1].Exec(frame)}
	for _, arg := range args {
		if types.IsUnknownOrError(arg) {
			return arg
		}
	}
	if compared(c.Function(), args) > maxCompared {
		return types.NewErrWithNodeID(c.ID(), "it compares values of more than %d members", maxCompared)
	}
	switch c.Function() {
	case operators.Equals:
		return types.Equal(args[0], args[1])
	case operators.NotEquals:
		return types.Bool(types.Equal(args[0], args[1]) != types.True)
	}
	if container, ok := args[1].(traits.Container); ok {
		return container.Contains(args[0])
	}
	return types.NewErrWithNodeID(c.ID(), "no such overload")
}

// Eval is Exec.
func (c comparison) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}
