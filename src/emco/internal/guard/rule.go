package guard

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/json"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/expression"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

const (
	maxAppCost = 2_000_000 // CEL's units that the rules of all policies may cost for one rendering of an app
	maxReason  = 300       // bytes that a breach has of the reason why a rule cannot be evaluated
)

// rule is a compiled validation with the variables of its policy.
type rule struct {
	validation v2.Validation
	holds      expression.Expression
	variables  []variable
}

// variable is a compiled variable; its name begins with "variables.".
type variable struct {
	name  string
	value expression.Expression
}

// CheckExpressions is Invalid if an expression of a policy cannot be compiled.
func CheckExpressions(s v2.PolicySpec) error {
	_, err := compile(s.Variables, s.Validations)
	return err
}

// compile compiles the validations of a policy. A variable knows those before it, and a validation all of them.
func compile(variables []v2.PolicyVariable, validations []v2.Validation) ([]rule, error) {
	names := map[string]expression.Type{"object": expression.Any}
	var known []variable
	for i, v := range variables {
		value, err := expression.Compile(v.Expression, names)
		if err != nil {
			return nil, errs.New(errs.Invalid, fmt.Sprintf("Invalid Input:\n- spec.variables[%d].expression: %v", i, err))
		}
		known = append(known, variable{"variables." + v.Name, value})
		names["variables."+v.Name] = expression.Any
	}
	var out []rule
	for i, v := range validations {
		holds, err := expression.CompileCondition(v.Expression, names)
		if err != nil {
			return nil, errs.New(errs.Invalid, fmt.Sprintf("Invalid Input:\n- spec.validations[%d].expression: %v", i, err))
		}
		out = append(out, rule{v, holds, known})
	}
	return out, nil
}

// checkRules returns the objects that break validations of the policies, in order of policies and objects.
func checkRules(objects []manifest.Object, policies []Policy) (out []Breach, err error) {
	left := uint64(maxAppCost)
	for _, p := range policies {
		if p.rules == nil {
			continue
		}
		rules, err := p.rules()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		for _, o := range objects {
			broken, cost, err := p.checkObject(rules, o, left)
			if err != nil {
				return nil, err
			}
			out = append(out, broken...)
			left -= min(left, cost)
		}
	}
	return out, nil
}

// checkObject evaluates the rules that concern an object while their costs are below the limit.
func (p Policy) checkObject(rules []rule, o manifest.Object, limit uint64) (out []Breach, cost uint64, err error) {
	var values map[string]any // of the expressions; nil: no rule has concerned the object so far
	for _, r := range rules {
		if len(r.validation.Kinds) > 0 && !matchesKind(r.validation.Kinds, o.ID) {
			continue
		}
		if values == nil {
			var tree any
			if err := json.UnmarshalCaseSensitivePreserveInts(o.Content, &tree); err != nil {
				return nil, cost, fmt.Errorf("check %s: %w", o.ID, err)
			}
			values = map[string]any{"object": tree}
			for _, v := range r.variables {
				values[v.name] = func() any {
					value, spent, err := v.value.Value(context.Background(), values)
					cost += spent
					if err != nil {
						return expression.Failed(fmt.Errorf("%s: %w", v.name, err))
					}
					return value
				}
			}
		}
		b := Breach{Policy: p.String(), Strict: r.validation.Mode == v2.ValidationRefuse, Rule: r.validation.Name, Object: o}
		switch {
		case cost >= limit:
			b.Text = fmt.Sprintf("is not compared with the rule: the rules of the project's policies cost more than %d units for this app; make them simpler, or name the kinds that they concern", maxAppCost)
		default:
			holds, spent, err := r.holds.Holds(context.Background(), values)
			cost += spent
			if holds {
				continue
			}
			b.Text = text(r.validation.Message, o, err)
		}
		out = append(out, b)
	}
	return out, cost, nil
}

// text returns what is wrong with an object. Reasons quote values, so those of Secrets are left out.
func text(message string, o manifest.Object, unknown error) string {
	message = strings.Join(strings.Fields(message), " ")
	switch {
	case unknown == nil:
		return message
	case isSecret(o.ID):
		return "may break the rule, which cannot be evaluated for it: " + message
	}
	reason := unknown.Error()
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	return fmt.Sprintf("may break the rule, which cannot be evaluated for it (%s; has() asks whether an object has a member): %s", reason, message)
}
