// Package judge says how an object on a cluster is doing, by the rules of kstatus, which
// Flux and the control plane's own watch use too. What has a task is judged by its end:
// Jobs that are Helm hooks, and Pods that run for a Job.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/monitor/internal/fields"
)

// Annotations that mark objects which run once: Helm's, and EMCO's name for it in Git.
const (
	helmHook = "helm.sh/hook"
	emcoHook = "emco/hook"
)

// Object returns an object's status and, unless it is Current, why. An object on which
// the rules fail, or panic, is Unknown.
func Object(u *unstructured.Unstructured) (state, reason string) {
	defer func() {
		if p := recover(); p != nil {
			state, reason = status.Unknown, short("its status cannot be computed: "+fmt.Sprint(p))
		}
	}()
	result, err := kstatus.Compute(u)
	if err != nil {
		return status.Unknown, short("its status cannot be computed: " + err.Error())
	}
	state, reason = result.Status.String(), result.Message
	if state == status.Current {
		state, reason = outcome(u)
	}
	if state == status.Current {
		return state, ""
	}
	return state, short(cmp.Or(reason, "it is not ready yet"))
}

// Metadata returns the status of an object of which only the metadata is known, for
// kinds that have no status of their own.
func Metadata(m metav1.Object) (state, reason string) {
	if m.GetDeletionTimestamp() != nil {
		return status.Terminating, "it is being deleted"
	}
	return status.Current, ""
}

// outcome judges an object that is well by the general rules, for which it is enough
// that a Job has started and that a Pod has ended, however that was.
func outcome(u *unstructured.Unstructured) (state, reason string) {
	notes := u.GetAnnotations()
	hook := notes[helmHook] != "" || notes[emcoHook] != ""
	switch u.GroupVersionKind().GroupKind().String() {
	case "Pod":
		owner := metav1.GetControllerOf(u)
		return pod(u, hook || owner != nil && owner.Kind == "Job")
	case "Job.batch":
		if hook && !completed(u) {
			return status.InProgress, "the job has not completed yet"
		}
	}
	return status.Current, ""
}

// pod judges a Pod. One that has a task is only well when that is done.
func pod(u *unstructured.Unstructured, task bool) (state, reason string) {
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	switch {
	case phase == "Failed":
		why, _, _ := unstructured.NestedString(u.Object, "status", "message")
		return status.Failed, "it ended without success: " + why
	case task && phase != "Succeeded":
		return status.InProgress, "it has not ended yet"
	}
	return status.Current, ""
}

func completed(job *unstructured.Unstructured) bool {
	return slices.ContainsFunc(fields.Conditions(job), func(c fields.Condition) bool { return c.Type == "Complete" && c.Status == "True" })
}

// short is a reason in one line, within the limit of reports.
func short(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if len(text) > status.MaxReason {
		text = strings.ToValidUTF8(text[:status.MaxReason], "")
	}
	return text
}
