package v2

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/outbound"
)

// PolicyIntent asks for an action on a deployment when an agent delivers an event that meets a condition.
type PolicyIntent struct {
	Named
	Spec PolicyIntentSpec `json:"spec"` // the event, the condition and the action
}

// PolicyIntentSpec describes the event, the condition and the action.
type PolicyIntentSpec struct {
	Event     PolicyEvent       `json:"event"`               // which events count
	Policy    PolicyCondition   `json:"policy"`              // when they ask for the action
	Actor     string            `json:"actor"`               // the action: instantiate, update, rollback, stop or terminate
	ActorArg  map[string]string `json:"actorArg,omitempty"`  // of rollback: the revision
	Author    string            `json:"author"`              // who made the intent, and with whose permissions it acts; in answers only
	AuthorUID string            `json:"authorUid,omitempty"` // of the API token that made it: the intent acts while that token is valid; in answers only
}

// PolicyEvent names events.
type PolicyEvent struct {
	ID    string `json:"id"`    // of the event
	Agent string `json:"agent"` // that delivers it
}

// PolicyCondition is an expression over an event, or a rule of an OPA server.
type PolicyCondition struct {
	EngineURL  string `json:"engineUrl,omitempty"`  // of an OPA server that the operator allows, such as http://opa.example.org:8181; empty: EMCO evaluates the expression itself
	PolicyName string `json:"policyName,omitempty"` // with engineUrl: the path of a rule below its /v1/data/, such as shop/halt; otherwise for people
	Expression string `json:"expression,omitempty"` // without engineUrl: in CEL, over event.id, event.agent, event.data and group; not in upstream EMCO
}

// policyActors are the actions that events may ask for. Approval is a decision of people.
var policyActors = []string{"instantiate", "update", "rollback", "stop", "terminate"}

// ruleName is the path of a rule of an OPA server.
var ruleName = regexp.MustCompile(`^[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*$`)

// maxExpression is the length of the longest condition, in bytes.
const maxExpression = 4096

// normalize drops what only the server may set.
func (r *PolicyIntent) normalize() { r.Spec.Author, r.Spec.AuthorUID = "", "" }

// Revision returns the revision that a rollback restores; 0 for other actions.
func (s PolicyIntentSpec) Revision() int64 {
	n, err := strconv.ParseInt(s.ActorArg["revision"], 10, 64)
	if s.Actor != "rollback" || err != nil {
		return 0
	}
	return n
}

// Validate checks metadata and spec. The server also reads the expression.
func (r *PolicyIntent) Validate() error {
	c := begin(&r.Named)
	s := r.Spec
	c.name("spec.event.id", s.Event.ID)
	c.name("spec.event.agent", s.Event.Agent)
	s.Policy.check(c)
	if !slices.Contains(policyActors, s.Actor) {
		c.fail("spec.actor", "%s is none of %s", quote(s.Actor), strings.Join(policyActors, ", "))
	}
	for _, key := range sortedKeys(s.ActorArg) {
		if key != "revision" || s.Actor != "rollback" {
			c.fail(join("spec.actorArg", key), "not known; rollback has the argument revision, other actions none")
		}
	}
	if s.Actor == "rollback" && s.Revision() < 1 {
		c.fail("spec.actorArg.revision", "%s is no number of a revision", quote(s.ActorArg["revision"]))
	}
	return c.err()
}

func (p PolicyCondition) check(c *violationList) {
	c.text("spec.policy.policyName", p.PolicyName, MaxName)
	if p.EngineURL == "" {
		if n := len(p.Expression); n == 0 || n > maxExpression {
			c.fail("spec.policy.expression", "%d bytes long; write a condition in CEL of 1 to %d bytes, such as event.data.load > 0.9", n, maxExpression)
		}
		return
	}
	c.text("spec.policy.engineUrl", p.EngineURL, MaxDescription)
	switch u, err := outbound.ReadURL(p.EngineURL); {
	case err != nil:
		c.fail("spec.policy.engineUrl", "%s: %s", quote(p.EngineURL), err)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		c.fail("spec.policy.engineUrl", "%s: it must have neither a query nor a fragment", quote(p.EngineURL))
	}
	if !ruleName.MatchString(p.PolicyName) {
		c.fail("spec.policy.policyName", "%s is no path of a rule; with engineUrl write one such as shop/halt, of letters, digits, '-', '_' and '/'", quote(p.PolicyName))
	}
	if p.Expression != "" {
		c.fail("spec.policy.expression", "with engineUrl the server decides; leave one of both out")
	}
}

// RuleURL returns where the OPA server answers for the rule.
func (p PolicyCondition) RuleURL() string {
	return strings.TrimSuffix(p.EngineURL, "/") + "/v1/data/" + p.PolicyName
}

// PolicyAgent is a program that delivers events.
type PolicyAgent struct {
	Named
	Spec PolicyAgentSpec `json:"spec"` // where it is
}

// PolicyAgentSpec describes an agent.
type PolicyAgentSpec struct {
	Endpoint string `json:"endpoint,omitempty"` // for people: agents call EMCO, and EMCO does not call them
}

// Validate checks metadata and spec.
func (r *PolicyAgent) Validate() error {
	c := begin(&r.Named)
	c.text("spec.endpoint", r.Spec.Endpoint, MaxDescription)
	return c.err()
}

// AgentEvent is what an agent delivers.
type AgentEvent struct {
	ID   string         `json:"id"`             // of the event, which intents name
	Data map[string]any `json:"data,omitempty"` // what conditions read
}

// Outcomes of an event for an intent.
const (
	EventUnmet   = "unmet"   // the condition is not met
	EventActed   = "acted"   // the action is requested
	EventRefused = "refused" // the author may not do it, the deployment's state does not allow it, or the condition cannot be evaluated
	EventFailed  = "failed"  // deliver the event again
)

// EventOutcome is what an event led to, for one intent.
type EventOutcome struct {
	Intent  string `json:"intent"`  // its path
	Actor   string `json:"actor"`   // the action
	Outcome string `json:"outcome"` // unmet, acted, refused or failed
	Error   string `json:"error,omitempty"`
}
