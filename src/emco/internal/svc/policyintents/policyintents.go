// Package policyintents owns the policy agents, which deliver events, and the policy intents, which ask for actions on
// deployments when an event meets a condition. It asks the orchestrator for the actions, through the interface Actions, and may do with
// an event only what the author of the intent may do. It also serves upstream's GET /v2/health.
package policyintents

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/gorilla/mux"
	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/condition"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Limits of intents and events.
const (
	maxIntents = 20       // of a group
	maxMatches = 50       // intents of a project that name one event
	maxEvent   = 64 << 10 // bytes
	maxTime    = 30 * time.Second
	maxMoment  = time.Second      // for one expression
	maxAsking  = 10 * time.Second // for the rules of one project
	maxAnswers = maxTime / 2      // for all rules: the actions need the rest
	maxAsked   = 16               // projects whose rules are asked for at the same time
)

// Request is an action that an event asks for.
type Request struct {
	Group    store.Key
	Action   string
	Revision int64 // of a rollback
	Actor    string
	Reason   string
	Key      string // requests with equal keys are one; empty for none
	DryRun   bool
}

// Actions carries out actions on deployments.
type Actions interface {
	Act(ctx context.Context, r Request) error
	// Warn adds a line to the event log of a group's deployment.
	Warn(ctx context.Context, group store.Key, reason, message string) error
}

// Engine decides conditions outside of the program.
type Engine interface {
	// Admit returns Forbidden for a rule that the operator does not allow.
	Admit(c v2.PolicyCondition) error
	// Holds asks whether the rule is true. Unavailable if nothing answers; other errors are final.
	Holds(ctx context.Context, c v2.PolicyCondition, in condition.Input) (bool, error)
}

// Service serves agents, intents and events.
type Service struct {
	DB      *store.DB
	Actions Actions
	Engine  Engine
	Log     *slog.Logger
	// Grants returns who may do what now; nil if the program does not authenticate.
	Grants func() (*authz.Grants, error)
	// Lives reports whether the API token with a uid is valid; nil as Grants.
	Lives func(uid string) (bool, error)
	Now   func() time.Time

	warned warnings
}

const (
	agents  = "policy/agents"
	agent   = agents + "/{agent}"
	intents = "policy-intents"
)

// Mount adds the routes.
func (s *Service) Mount(r *mux.Router) {
	resource.Mount(r, s.DB, resource.Def[v2.PolicyAgent]{
		Kind: "Agent", Collection: agents, Item: "{agent}", AtItem: true,
	})
	resource.Mount(r, s.DB, resource.Def[v2.PolicyIntent]{
		Kind: "PolicyIntent", Orphan: "DeploymentIntentGroup not found",
		Collection: web.GroupPath + "/" + intents, Item: "{policyIntent}", AtItem: true,
		Refs: func(_ resource.Place, d v2.PolicyIntent) []store.Ref {
			return []store.Ref{{Key: store.Key(agents + "/" + d.Spec.Event.Agent)}}
		},
		Settle: func(ctx context.Context, _ resource.Place, d *v2.PolicyIntent) error {
			c := authn.From(ctx)
			d.Spec.Author, d.Spec.AuthorUID = c.Subject, c.UID
			return nil
		},
		AtMost: maxIntents,
		Check:  s.check, Forbids: "its author may not do the action itself",
	})
	web.Handle(r, http.MethodPost, "/v2/"+agent+"/events", authz.Permission{Verb: authz.Act("deliver"), Type: "agents"}, web.WithDryRun(s.deliver))
	web.Handle(r, http.MethodGet, "/v2/health", authz.Permission{Verb: authz.Public, Type: "agents"}, func(w http.ResponseWriter, _ *http.Request) error {
		return web.JSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
}

// check refuses conditions that cannot be read, intents beyond the limit, and actions that the author may not
// do itself.
func (s *Service) check(_ context.Context, at resource.Place, d v2.PolicyIntent) error {
	if d.Spec.Policy.EngineURL != "" {
		if err := s.Engine.Admit(d.Spec.Policy); err != nil {
			return err
		}
	} else if _, err := condition.Compile(d.Spec.Policy.Expression); err != nil {
		return errs.New(errs.Invalid, "Invalid Input:\n- spec.policy.expression: "+err.Error())
	}
	return s.allowed(d.Spec, v2.ProjectStoreKey(at.Vars["project"]))
}

// allowed returns Forbidden unless the author of an intent may do its action now. Only bindings of the author
// itself count: who is in a group is known from a request of that person alone, and there is none.
func (s *Service) allowed(spec v2.PolicyIntentSpec, place string) error {
	if s.Grants == nil {
		return nil
	}
	grants, err := s.Grants()
	if err != nil {
		return err
	}
	const typ = "deployment-intent-groups"
	if spec.Author == "" {
		return errs.New(errs.Forbidden, "the intent was made while authentication was off; delete it and create it again")
	}
	if spec.AuthorUID != "" { // intents of older versions name their token alone
		lives, err := s.Lives(spec.AuthorUID)
		if err == nil && !lives {
			err = errs.New(errs.Forbidden, spec.Author+", which made the intent, was revoked or has ended; a later token of that name is another one; delete the intent and create it again")
		}
		if err != nil {
			return err
		}
	}
	if d := grants.Decide(spec.Author, nil, authz.Act(spec.Actor), typ, place, s.Now()); !d.Allowed {
		return errs.New(errs.Forbidden, fmt.Sprintf("%s may not %s %s in %s (%s); events act with the permissions of the intent's author, not with those of its groups: bind a role to the author itself, or make the intent with an API token",
			spec.Author, spec.Actor, typ, place, d.Because()))
	}
	return nil
}

// deliver answers what an event leads to.
func (s *Service) deliver(w http.ResponseWriter, r *http.Request, dry bool) error {
	if err := web.CheckQuery(r.URL.Query(), "dryRun"); err != nil {
		return err
	}
	vars, err := web.Vars(r)
	if err != nil {
		return err
	}
	key, err := web.IdempotencyKey(r)
	if err != nil {
		return err
	}
	body, err := web.Body(w, r, maxEvent)
	if err != nil {
		return err
	}
	event, err := readEvent(body)
	if err != nil {
		return err
	}
	source := store.Key(agents + "/" + vars["agent"])
	if _, err := s.DB.Get(r.Context(), source); err != nil {
		return store.NotFoundAs(err, "Agent not found")
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxTime)
	defer cancel()
	matches, err := s.matches(ctx, source, event.ID)
	if err != nil {
		return err
	}
	s.judge(ctx, matches, event)
	out := make([]v2.EventOutcome, 0, len(matches))
	for _, m := range matches {
		o := s.meet(ctx, m, event, key, dry)
		if !dry {
			s.warn(ctx, m, event, o)
		}
		out = append(out, o)
	}
	return web.JSON(w, http.StatusOK, out)
}

// readEvent reads what an agent delivers.
func readEvent(body []byte) (event v2.AgentEvent, err error) {
	if err := json.Unmarshal(body, &event); err != nil {
		return event, errs.New(errs.Malformed, "the event is no JSON of the form {\"id\": …, \"data\": {…}}: "+err.Error())
	}
	return event, v2.CheckName("id", event.ID)
}

// matchedIntent is an intent that names an event.
type matchedIntent struct {
	store.Item[v2.PolicyIntent]
	group  v2.GroupKey
	beyond bool // the limit of its project: others must not wait for it

	holds bool  // whether the condition is met
	err   error // why that is not known
}

// matches returns the intents that name an event of an agent, in order of their paths.
func (s *Service) matches(ctx context.Context, agent store.Key, event string) (out []*matchedIntent, err error) {
	projects := map[string]int{}
	for item, err := range store.All[v2.PolicyIntent](ctx, s.DB, "projects", store.Query{Refers: agent}) {
		if err != nil {
			return nil, err
		}
		if item.Value.Spec.Event.ID != event {
			continue
		}
		group, ok := v2.GroupOf(string(item.Doc.Parent))
		if !ok {
			return nil, errs.New(errs.Internal, string(item.Doc.Key)+" is below no deployment intent group")
		}
		project := group.CompositeApp.Project
		projects[project]++
		out = append(out, &matchedIntent{Item: item, group: group, beyond: projects[project] > maxMatches})
	}
	return out, nil
}

// judge evaluates the conditions of all matches. The rules of several projects are asked for at the same time, and each
// project has a limit, so that a slow rule delays those of its own project.
func (s *Service) judge(ctx context.Context, matches []*matchedIntent, event v2.AgentEvent) {
	rules := map[string][]*matchedIntent{} // by project
	for _, m := range matches {
		switch {
		case m.beyond:
			m.err = errs.New(errs.Invalid, fmt.Sprintf("more than %d intents of the project name the event; use several events", maxMatches))
		case m.Value.Spec.Policy.EngineURL != "":
			project := m.group.CompositeApp.Project
			rules[project] = append(rules[project], m)
		default:
			m.holds, m.err = evaluate(ctx, m, event)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, maxAnswers)
	defer cancel()
	var all errgroup.Group
	all.SetLimit(maxAsked)
	for _, project := range slices.Sorted(maps.Keys(rules)) {
		all.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, maxAsking)
			defer cancel()
			for _, m := range rules[project] {
				m.holds, m.err = s.Engine.Holds(ctx, m.Value.Spec.Policy, m.input(event))
			}
			return nil
		})
	}
	_ = all.Wait() // each match has its error
}

// evaluate evaluates the expression of an intent.
func evaluate(ctx context.Context, m *matchedIntent, event v2.AgentEvent) (bool, error) {
	c, err := condition.Compile(m.Value.Spec.Policy.Expression)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxMoment)
	defer cancel()
	return c.Holds(ctx, m.input(event))
}

// input is what the condition of an intent knows.
func (m *matchedIntent) input(event v2.AgentEvent) condition.Input {
	app := m.group.CompositeApp
	return condition.Input{
		Event: map[string]any{"id": event.ID, "agent": m.Value.Spec.Event.Agent, "data": event.Data},
		Group: map[string]string{"project": app.Project, "compositeApp": app.Name, "version": app.Version, "name": m.group.Name},
	}
}

// meet asks for the action of an intent if its condition is met.
func (s *Service) meet(ctx context.Context, m *matchedIntent, event v2.AgentEvent, key string, dry bool) v2.EventOutcome {
	out := v2.EventOutcome{Intent: string(m.Doc.Key), Actor: m.Value.Spec.Actor, Outcome: v2.EventUnmet}
	err := m.err
	if err == nil && m.holds {
		if out.Outcome, err = v2.EventActed, s.act(ctx, m, event, key, dry); err == nil {
			return out
		}
	}
	switch {
	case err == nil:
	case errs.Is(err, errs.Unavailable), errs.Is(err, errs.Internal), ctx.Err() != nil:
		out.Outcome, out.Error = v2.EventFailed, err.Error()
	default:
		out.Outcome, out.Error = v2.EventRefused, err.Error()
	}
	return out
}

// warn writes an event of the deployment with the reason why an intent did nothing. If that fails, the agent still has the reason.
func (s *Service) warn(ctx context.Context, m *matchedIntent, event v2.AgentEvent, o v2.EventOutcome) {
	if m.beyond || !s.warned.due(m.Doc.UID, o.Error, s.Now()) {
		return
	}
	reason := v2.PolicyIntentEventReason(o.Outcome)
	if err := s.Actions.Warn(context.WithoutCancel(ctx), m.Doc.Parent, reason, m.reason(event)+": "+o.Error); err != nil {
		s.Log.Warn("cannot record why a policy intent did nothing", "intent", m.Doc.Key, "err", err)
	}
}

// act asks for the action of an intent, with the permissions that its author has now.
func (s *Service) act(ctx context.Context, m *matchedIntent, event v2.AgentEvent, key string, dry bool) error {
	spec := m.Value.Spec
	if err := s.allowed(spec, v2.ProjectStoreKey(m.group.CompositeApp.Project)); err != nil {
		return err
	}
	if key != "" {
		key += " " + m.Doc.UID
	}
	return s.Actions.Act(ctx, Request{
		Group: m.Doc.Parent, Action: spec.Actor, Revision: spec.Revision(), Actor: spec.Author, Key: key, DryRun: dry, Reason: m.reason(event),
	})
}

// reason names an intent and an event, for the history and the event log.
func (m *matchedIntent) reason(event v2.AgentEvent) string {
	return fmt.Sprintf("policy intent %s, event %s of agent %s", path.Base(string(m.Doc.Key)), event.ID, m.Value.Spec.Event.Agent)
}
