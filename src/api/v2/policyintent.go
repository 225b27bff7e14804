package v2

import (
	"slices"
	"strconv"
	"strings"
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

// PolicyCondition is an expression over an event.
type PolicyCondition struct {
	EngineURL  string `json:"engineUrl,omitempty"`  // must be empty: conditions are evaluated by EMCO itself
	PolicyName string `json:"policyName,omitempty"` // for people
	Expression string `json:"expression"`           // in CEL, over event.id, event.agent, event.data and group; not in upstream EMCO
}

// policyActors are the actions that events may ask for. Approval is a decision of people.
var policyActors = []string{"instantiate", "update", "rollback", "stop", "terminate"}

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
	if s.Policy.EngineURL != "" {
		c.fail("spec.policy.engineUrl", "EMCO asks no other engine; leave it out, and write the condition in CEL as spec.policy.expression")
	}
	c.text("spec.policy.policyName", s.Policy.PolicyName, MaxName)
	if n := len(s.Policy.Expression); n == 0 || n > maxExpression {
		c.fail("spec.policy.expression", "%d bytes long; write a condition in CEL of 1 to %d bytes, such as event.data.load > 0.9", n, maxExpression)
	}
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
