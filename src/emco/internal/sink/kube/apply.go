package kube

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// AppState is the desired state of one app on a cluster.
type AppState struct {
	Deployment v2.DeploymentID   // the deployment's id
	App        string            // the app's name
	Desired    []manifest.Object // in the order to apply them; empty to remove the app
	CRDs       []manifest.Object // definitions that Desired needs; never deleted
	Previous   []manifest.ID     // objects that may be on the cluster, in any order; may include Desired
}

// Result is what Apply did, also if it failed.
type Result struct {
	Applied  int           // objects that the API server accepted
	Accepted []manifest.ID // these objects
	Ended    bool          // the run ended before it had tried all objects
	Pruned   int           // deletions that the API server accepted
	Findings []string      // for users: fields and objects taken over from others, objects left behind
	Failed   []ObjectError // objects that were refused
}

// ObjectError is why one object could not be applied or deleted.
type ObjectError struct {
	ID  manifest.ID
	Err error // classified; see Classify
}

// maxFindings bounds the findings of one Apply.
const maxFindings = 50

// Apply brings an app on the cluster to the desired state. It is idempotent.
//
// It applies the definitions and waits until they are served, then applies namespaces, then
// the other objects in the given order. A refused object does not stop the others; a cluster
// that does not answer does. Fields that others have set to other values are taken over,
// with a finding that names the other field manager.
//
// If all desired objects were applied, Apply deletes the objects of Previous that are not
// desired, in reverse order, namespaces last. It leaves objects that no longer have the
// app's label, because another owner took them over, and objects that ask to be kept.
//
// The error has the kind of the failure that a retry is most likely to fix, and names
// the first object with that failure. Result.Failed lists all failures.
func (c *Cluster) Apply(ctx context.Context, st AppState) (Result, error) {
	key, value := manifest.DeploymentLabel(st.Deployment, st.App)
	r := &applyRun{cluster: c, label: deploymentLabel{key, value}, appliedUIDs: map[types.UID]bool{}, desired: map[manifest.ObjectKey]bool{}}
	if err := r.applyDefinitions(ctx, st); err != nil {
		r.result.Ended = true
		return r.result, err
	}
	for _, o := range namespacesFirst(st.Desired) {
		if err := r.apply(ctx, o); err != nil {
			r.result.Ended = true
			return r.result, err
		}
	}
	if len(r.result.Failed) == 0 {
		if err := r.prune(ctx, st.Previous); err != nil {
			return r.result, err
		}
	}
	return r.result, r.summary(st.App)
}

// Remove deletes an app from the cluster: it is Apply without desired objects.
func (c *Cluster) Remove(ctx context.Context, deployment v2.DeploymentID, app string, previous []manifest.ID) (Result, error) {
	return c.Apply(ctx, AppState{Deployment: deployment, App: app, Previous: previous})
}

// applyRun is one call of Apply. Only its goroutine touches it.
type applyRun struct {
	cluster     *Cluster
	label       deploymentLabel
	result      Result
	desired     map[manifest.ObjectKey]bool
	appliedUIDs map[types.UID]bool // of applied objects: two groups may serve the same object
	mapperReset bool               // the served kinds were read again during this run
}

type deploymentLabel struct{ key, value string }

// recordFailure records the failure of an object. It returns the failure if the cluster is
// unreachable, which ends the run.
func (r *applyRun) recordFailure(id manifest.ID, op string, err error) error {
	if err == nil {
		return nil
	}
	classified := Classify(op, id.String(), err)
	stop := unreachable(classified)
	if id.Kind == "Secret" && id.Group == "" {
		classified = &errs.Error{Kind: errs.KindOf(classified), Op: op, Subject: id.String(), Err: withoutValues(err), After: errs.RetryAfter(classified)}
	}
	r.result.Failed = append(r.result.Failed, ObjectError{id, classified})
	if stop {
		return classified
	}
	return nil
}

// addFinding adds a finding to the result.
func (r *applyRun) addFinding(format string, args ...any) {
	if len(r.result.Findings) < maxFindings {
		r.result.Findings = append(r.result.Findings, fmt.Sprintf(format, args...))
	}
}

// retryOrder lists the kinds of failures. A retry is most likely to fix the first kinds.
var retryOrder = []errs.Kind{
	errs.Unavailable, errs.Throttled, errs.Conflict, errs.NotFound, errs.Internal,
	errs.Unauthorized, errs.Forbidden, errs.TooLarge, errs.Invalid,
}

// summary returns one error for all failures, nil if there are none.
func (r *applyRun) summary(app string) error {
	failed := r.result.Failed
	if len(failed) == 0 {
		return nil
	}
	first := slices.MinFunc(failed, func(x, y ObjectError) int {
		return slices.Index(retryOrder, errs.KindOf(x.Err)) - slices.Index(retryOrder, errs.KindOf(y.Err))
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

// namespacesFirst returns objects with the namespaces first.
func namespacesFirst(objects []manifest.Object) []manifest.Object {
	out := slices.Clone(objects)
	slices.SortStableFunc(out, func(x, y manifest.Object) int { return rank(x.ID) - rank(y.ID) })
	return out
}

func rank(id manifest.ID) int {
	if isNamespace(id) {
		return 0
	}
	return 1
}

func isNamespace(id manifest.ID) bool { return id.Group == "" && id.Kind == "Namespace" }
