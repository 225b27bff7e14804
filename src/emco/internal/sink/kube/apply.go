package kube

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// AppState is what a cluster shall hold of one app.
type AppState struct {
	Deployment string            // the deployment's id
	App        string            // the app's name
	Want       []manifest.Object // in order of application; empty to remove the app
	CRDs       []manifest.Object // definitions that Want needs; never deleted
	Previous   []manifest.ID     // what may be there of the app, in any order; may include Want
}

// Result says what was done. It is filled as far as Apply got, also when it fails.
type Result struct {
	Applied  int           // objects that the API server holds as wanted
	Pruned   int           // objects whose deletion the API server accepted
	Findings []string      // what users should know: fields or objects taken over from others
	Failed   []ObjectError // objects that were refused
}

// ObjectError is why one object could not be applied or deleted.
type ObjectError struct {
	ID  manifest.ID
	Err error // classified; see Classify
}

// maxFindings bounds the findings of one Apply.
const maxFindings = 50

// Apply makes the cluster hold what st wants. Doing it again changes nothing.
//
// Definitions are applied and awaited first, then namespaces, then the rest in the
// given order. An object that is refused stops no other; a cluster that does not
// answer ends the attempt. Fields that others set to something else are taken over,
// and a finding says from whom. Only when all that is wanted was applied, objects of
// Previous that are not wanted are deleted, in reverse order, namespaces last; those
// that do not carry the app's label any more are left to whoever took them over, and
// those that ask to be kept stay.
//
// The error's kind is that of the failure for which trying again is most likely to
// help; it names the first object of that kind, and Result.Failed has all of them.
func (c *Cluster) Apply(ctx context.Context, st AppState) (Result, error) {
	key, value := manifest.DeploymentLabel(st.Deployment, st.App)
	a := &attempt{cluster: c, label: label{key, value}, uids: map[types.UID]bool{}, wanted: map[objectKey]bool{}}
	if err := a.definitions(ctx, st); err != nil {
		return a.result, err
	}
	for _, o := range namespacesFirst(st.Want) {
		if err := a.apply(ctx, o); err != nil {
			return a.result, err
		}
	}
	if len(a.result.Failed) == 0 {
		if err := a.prune(ctx, st.Previous); err != nil {
			return a.result, err
		}
	}
	return a.result, a.failure(st.App)
}

// Remove deletes an app from the cluster: Apply with nothing wanted.
func (c *Cluster) Remove(ctx context.Context, deployment, app string, previous []manifest.ID) (Result, error) {
	return c.Apply(ctx, AppState{Deployment: deployment, App: app, Previous: previous})
}

// attempt is one run of Apply.
type attempt struct {
	cluster *Cluster
	label   label
	result  Result
	wanted  map[objectKey]bool
	uids    map[types.UID]bool // of what was applied: the same object may be served by two groups
	fresh   bool               // the kinds of the cluster were read anew during this attempt
}

type label struct{ key, value string }

// objectKey is an object's identity on a cluster, whatever the version of its API.
type objectKey struct{ group, kind, namespace, name string }

// note records an object's failure. It returns the failure if the cluster is silent,
// which ends the attempt.
func (a *attempt) note(id manifest.ID, op string, err error) error {
	if err == nil {
		return nil
	}
	classified := Classify(op, id.String(), err)
	stop := silent(classified)
	if id.Kind == "Secret" && id.Group == "" {
		classified = &errs.Error{Kind: errs.KindOf(classified), Op: op, Subject: id.String(), Err: guarded(err), After: errs.RetryAfter(classified)}
	}
	a.result.Failed = append(a.result.Failed, ObjectError{id, classified})
	if stop {
		return classified
	}
	return nil
}

// find records a finding.
func (a *attempt) find(format string, args ...any) {
	if len(a.result.Findings) < maxFindings {
		a.result.Findings = append(a.result.Findings, fmt.Sprintf(format, args...))
	}
}

// hopeful are the kinds of failure, from that for which trying again helps most.
var hopeful = []errs.Kind{
	errs.Unavailable, errs.Throttled, errs.Conflict, errs.NotFound, errs.Internal,
	errs.Unauthorized, errs.Forbidden, errs.TooLarge, errs.Invalid,
}

// failure sums up the failures; nil if there are none.
func (a *attempt) failure(app string) error {
	failed := a.result.Failed
	if len(failed) == 0 {
		return nil
	}
	first := slices.MinFunc(failed, func(x, y ObjectError) int {
		return slices.Index(hopeful, errs.KindOf(x.Err)) - slices.Index(hopeful, errs.KindOf(y.Err))
	})
	err := first.Err
	if len(failed) > 1 {
		err = fmt.Errorf("%d objects were refused, one of them: %w", len(failed), first.Err)
	}
	if errs.Is(first.Err, errs.Throttled) {
		return errs.Throttle("sync", "app "+app, errs.RetryAfter(first.Err), err)
	}
	return errs.E(errs.KindOf(first.Err), "sync", "app "+app, err)
}

// namespacesFirst returns objects with the namespaces before all others.
func namespacesFirst(objects []manifest.Object) []manifest.Object {
	out := slices.Clone(objects)
	slices.SortStableFunc(out, func(x, y manifest.Object) int { return order(x.ID) - order(y.ID) })
	return out
}

func order(id manifest.ID) int {
	if isNamespace(id) {
		return 0
	}
	return 1
}

func isNamespace(id manifest.ID) bool { return id.Group == "" && id.Kind == "Namespace" }
