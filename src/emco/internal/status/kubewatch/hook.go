package kubewatch

import (
	"cmp"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// hookAnnotation marks what a chart wants to run at a certain moment.
const hookAnnotation = "helm.sh/hook"

// compute judges an object by the rules of kstatus. A Job or a Pod that is a hook is
// Current only when it has succeeded: kstatus calls a Job Current while it runs, and a
// Pod when it has failed.
func compute(u *unstructured.Unstructured) (*status.Result, error) {
	result, err := status.Compute(u)
	if err != nil || result.Status == status.TerminatingStatus || u.GetAnnotations()[hookAnnotation] == "" {
		return result, err
	}
	switch gvk := u.GroupVersionKind(); {
	case gvk.Group == "batch" && gvk.Kind == "Job":
		return jobHook(u, result), nil
	case gvk.Group == "" && gvk.Kind == "Pod":
		return podHook(u, result), nil
	}
	return result, nil
}

func jobHook(u *unstructured.Unstructured, running *status.Result) *status.Result {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range conditions {
		c, ok := item.(map[string]any)
		if !ok || c["status"] != "True" {
			continue
		}
		reason, _ := c["reason"].(string)
		message, _ := c["message"].(string)
		switch c["type"] {
		case "Complete":
			return &status.Result{Status: status.CurrentStatus}
		case "Failed":
			return &status.Result{Status: status.FailedStatus, Message: cmp.Or(message, reason, "the Job failed")}
		}
	}
	return &status.Result{Status: status.InProgressStatus, Message: cmp.Or(running.Message, "the Job runs")}
}

func podHook(u *unstructured.Unstructured, running *status.Result) *status.Result {
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	reason, _, _ := unstructured.NestedString(u.Object, "status", "reason")
	message, _, _ := unstructured.NestedString(u.Object, "status", "message")
	switch phase {
	case "Succeeded":
		return &status.Result{Status: status.CurrentStatus}
	case "Failed":
		return &status.Result{Status: status.FailedStatus, Message: cmp.Or(message, reason, "the Pod failed")}
	}
	if running.Status == status.CurrentStatus {
		return &status.Result{Status: status.InProgressStatus, Message: "the Pod runs"}
	}
	return &status.Result{Status: status.InProgressStatus, Message: running.Message}
}
