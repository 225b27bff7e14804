package workflowmgr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
)

const (
	maxBody     = 64 << 10 // bytes of the body of an action
	maxAttempts = 10       // to change a record that others change at the same time

	maxUnfinished = 64 // runs that users started and that are not over, of one group
)

// mountActions adds what is done with runs.
func (s Resources) mountActions(r *mux.Router) {
	for _, f := range []struct {
		path, item, collection, actions string
		nameOf                          func(string) appcontext.RunName
	}{
		{hookPath, "hookIntent", workflow.HookCollection, "cancel retry skip abort", appcontext.HookRun},
		{workflowsPath, "workflowIntent", workflow.WorkflowCollection, "start cancel", appcontext.StartedRun},
	} {
		at := "/v2/" + f.path + "/{" + f.item + "}"
		place := runPlace{s, f.item, f.collection, f.nameOf}
		web.Handle(r, http.MethodGet, at+"/status", authz.Permission{Verb: authz.Get, Type: f.collection}, place.status)
		for action := range strings.FieldsSeq(f.actions) {
			web.Handle(r, http.MethodPost, at+"/"+action, authz.Permission{Verb: authz.Act(action), Type: f.collection}, web.WithDryRun(place.act(action)))
		}
	}
}

// runPlace answers requests about the runs of a kind of intents.
type runPlace struct {
	Resources
	item, collection string
	nameOf           func(intent string) appcontext.RunName
}

// intentRun is an intent with its last run.
type intentRun struct {
	doc  store.Doc
	head *appcontext.Head
	all  []appcontext.WorkflowRun // of the group
	run  appcontext.WorkflowRun   // NotStarted if there is none
}

// read finds the intent that a request names, and its last run.
func (p runPlace) read(r *http.Request) (out intentRun, err error) {
	vars, err := web.Vars(r)
	if err != nil {
		return out, err
	}
	group := store.Key(web.Group(vars).StoreKey())
	out.doc, err = p.DB.Get(r.Context(), group+"/"+store.Key(p.collection+"/"+vars[p.item]))
	if err != nil {
		return out, store.NotFoundAs(err, strings.ToUpper(p.item[:1])+p.item[1:]+" not found")
	}
	out.all, out.head, out.run, err = p.lastRun(r.Context(), group, p.nameOf(vars[p.item]))
	return out, err
}

// status answers the last run. Upstream's clients send a body that names the place to look; there is one place here.
func (p runPlace) status(w http.ResponseWriter, r *http.Request) error {
	if err := web.CheckQuery(r.URL.Query()); err != nil {
		return err
	}
	now, err := p.read(r)
	if err != nil {
		return err
	}
	out := workflow.Status(now.run, now.head)
	if now.run.State == v2.RunNotStarted {
		out.Actions = nil
		if p.collection == workflow.WorkflowCollection {
			out.Actions = []string{workflow.ActionStart}
		}
	}
	return web.JSON(w, http.StatusOK, out)
}

// act handles an action on a run.
func (p runPlace) act(action string) func(w http.ResponseWriter, r *http.Request, dry bool) error {
	return func(w http.ResponseWriter, r *http.Request, dry bool) error {
		if err := web.CheckQuery(r.URL.Query(), "dryRun"); err != nil {
			return err
		}
		how, err := cancellation(w, r, action)
		if err != nil {
			return err
		}
		for attempt := 1; ; attempt++ {
			state, err := p.tryAct(r, action, how, dry)
			switch {
			case errors.Is(err, appcontext.ErrOvertaken) && attempt < maxAttempts:
				continue
			case err != nil:
				return err
			case dry:
				return web.JSON(w, http.StatusOK, v2.ActionPreview{Action: action, State: state})
			}
			w.WriteHeader(http.StatusAccepted)
			return nil
		}
	}
}

// cancellation reads the body of a cancellation, which may be empty.
func cancellation(w http.ResponseWriter, r *http.Request, action string) (out v2.WorkflowCancelSpec, err error) {
	if action != workflow.ActionCancel || r.ContentLength == 0 {
		return out, nil
	}
	body, err := web.Body(w, r, maxBody)
	if err != nil {
		return out, err
	}
	c, err := v2.Decode[v2.WorkflowCancel](body, v2.Lenient)
	if err == nil && (len(c.Spec.Reason) > v2.MaxDescription || strings.ContainsAny(c.Spec.Reason, "\r\n")) {
		err = errs.New(errs.Invalid, "Invalid Input:\n- spec.reason: give one line of at most 1024 bytes")
	}
	return c.Spec, err
}

// tryAct carries out an action on the records as they are, and returns the state that it leads to.
func (p runPlace) tryAct(r *http.Request, action string, how v2.WorkflowCancelSpec, dry bool) (string, error) {
	now, err := p.read(r)
	if err != nil {
		return "", err
	}
	allowed := workflow.Actions(now.run, now.head)
	if now.run.State == v2.RunNotStarted && p.collection == workflow.WorkflowCollection {
		allowed = []string{workflow.ActionStart}
	}
	if !slices.Contains(allowed, action) {
		return "", errs.New(errs.Conflict, refusal(action, now.run, allowed))
	}
	next, actor, at := now.run, web.Actor(r.Context()), p.Now().UTC()
	switch action {
	case workflow.ActionStart, workflow.ActionRetry:
		spec, err := specOf(now.doc, next.Name)
		if err != nil {
			return "", err
		}
		if err := p.Runners.Admit(spec); err != nil {
			return "", err
		}
		if action == workflow.ActionStart {
			if err := checkUnfinished(now.all); err != nil {
				return "", err
			}
		}
		next = appcontext.WorkflowRun{
			UID: next.UID, Name: next.Name, Group: next.Group, Hook: next.Hook, After: next.After, Operation: next.Operation, Rev: next.Rev, Mod: next.Mod,
			ID: workflow.NewID(string(now.doc.Key), spec), State: v2.RunWaiting, Since: at,
		}
	case workflow.ActionSkip:
		next.State, next.Since, next.Message = v2.RunSkipped, at, "skipped by "+actor
	case workflow.ActionCancel:
		next.Cancel, next.Terminate = strings.TrimSuffix("canceled by "+actor+": "+how.Reason, ": "), how.Terminate
		if next.State == v2.RunWaiting {
			next.State, next.Since, next.Message = v2.RunCanceled, at, next.Cancel
		}
	case workflow.ActionAbort:
		return v2.RunReplaced, p.abort(r.Context(), now, actor, at, dry)
	}
	if dry {
		return next.State, nil
	}
	next, err = p.Contexts.SetRun(r.Context(), next)
	if err == nil && action == workflow.ActionStart {
		err = p.confirm(r.Context(), now.doc, next)
	}
	if err == nil {
		p.addEvent(r.Context(), next, action, actor)
	}
	return next.State, err
}

// checkUnfinished refuses a further run of a group that has too many under way.
func checkUnfinished(all []appcontext.WorkflowRun) error {
	n := 0
	for _, run := range all {
		if run.Hook == "" && unfinished(run) {
			n++
		}
	}
	if n >= maxUnfinished {
		return errs.New(errs.Conflict, fmt.Sprintf("start: %d runs of the group are not over, which is the limit; cancel some, or wait for them", n))
	}
	return nil
}

func refusal(action string, run appcontext.WorkflowRun, allowed []string) string {
	text := fmt.Sprintf("%s: not allowed while the run is %s", action, run.State)
	if len(allowed) > 0 {
		text += "; allowed is " + strings.Join(allowed, ", ")
	}
	return text
}

// confirm removes the run of an intent that was deleted at the same time.
func (p runPlace) confirm(ctx context.Context, doc store.Doc, run appcontext.WorkflowRun) error {
	now, err := p.DB.Get(ctx, doc.Key)
	switch {
	case err == nil && now.UID == doc.UID && now.State == store.Live:
		return nil
	case err != nil && !errs.Is(err, errs.NotFound):
		return err
	}
	if err := p.Contexts.ForgetRun(ctx, run.UID, run.Name); err != nil {
		return err
	}
	return errs.New(errs.NotFound, string(doc.Key)+" is being deleted")
}

// abort ends the operation that waits for a hook.
func (p runPlace) abort(ctx context.Context, now intentRun, actor string, at time.Time, dry bool) error {
	acts, err := p.Contexts.History(ctx, now.run.UID)
	if err != nil {
		return err
	}
	instance := ""
	for _, a := range acts {
		if a.Instance != "" {
			instance = a.Instance
		}
	}
	m, err := workflow.Abort(*now.head, now.run, instance, actor, at)
	if err != nil || dry {
		return err
	}
	changes := []appcontext.HeadChange{m}
	lifecycle.Trace(ctx, changes)
	_, err = p.Contexts.ChangeHeads(ctx, changes...)
	return err
}

// addEvent adds an action to the event log. If it fails, only this entry is lost.
func (p runPlace) addEvent(ctx context.Context, run appcontext.WorkflowRun, action, actor string) {
	name, _ := run.Name.Intent()
	_ = p.Contexts.AddEvents(ctx, appcontext.Event{
		UID: run.UID, Type: appcontext.Normal, Reason: v2.WorkflowEventReason(action),
		Message: action + " workflow " + name, Actor: actor, Rev: run.Rev,
	})
}

// specOf returns the workflow of an intent.
func specOf(doc store.Doc, name appcontext.RunName) (v2.WorkflowSpec, error) {
	if _, hook := name.Intent(); hook {
		h, err := store.Decode[v2.HookIntent](doc)
		return h.Spec.WorkflowSpec, err
	}
	w, err := store.Decode[v2.WorkflowIntent](doc)
	return w.Spec, err
}
