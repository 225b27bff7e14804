// Package kubehealth judges the health of Kubernetes objects and watches the objects of one
// kind. The control plane uses it for clusters that it reaches directly, the monitor for the
// cluster that it runs on, so both report the same health of an object. The callers choose the
// objects: the control plane watches only those that it rendered, and the monitor also reports
// Pods and Jobs that were created from them.
//
//	API server ──list, watch──► Watch ──objects──► Handler ──► Of ──► Health
//
// Health follows the rules of kstatus, which Flux uses too, except for Jobs, Pods and objects of
// cert-manager; see Of.
package kubehealth

import (
	"cmp"
	"fmt"
	"strings"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/api/status"
)

// Health is the state of one object.
type Health struct {
	Status string // one of the constants of package status
	Reason string // why it is not Current; one line, at most status.MaxReason bytes
}

// Annotations of chart hooks: Helm's own, and the name that they have in Git.
const (
	helmHook = "helm.sh/hook"
	emcoHook = "emco/hook"
)

// Of returns the health of an object. An object that kstatus cannot judge is Unknown.
//
//   - A Job that is a hook is Current when it has completed. Until then it is InProgress:
//     the next step of a deployment waits for its result. Any other Job is Current when it
//     has started, as in kstatus: a deployment with a long-running Job is ready.
//   - A Pod that failed is Failed, with or without an owner.
//   - A Pod that runs a task, which is a hook or a Pod of a Job, is Current when it has
//     succeeded, and Failed only when it has ended: until then its restarts may help.
//   - An object of cert-manager is InProgress until cert-manager has reported its status. A
//     CertificateRequest that was denied or could not be signed is Failed: it stays so.
func Of(u *unstructured.Unstructured) Health {
	return judge(u, kstatus.Compute)
}

// OfMetadata returns the health of an object from its metadata, for kinds without a status.
func OfMetadata(m metav1.Object) Health {
	if m.GetDeletionTimestamp() != nil {
		return Health{status.Terminating, "it is being deleted"}
	}
	return Health{Status: status.Current}
}

func judge(u *unstructured.Unstructured, compute func(*unstructured.Unstructured) (*kstatus.Result, error)) (h Health) {
	defer func() {
		if p := recover(); p != nil { // an odd object must not stop the watch of the others
			h = Health{status.Unknown, shorten(fmt.Sprint("its status cannot be computed: ", p))}
		}
	}()
	result, err := compute(u)
	if err != nil {
		return Health{status.Unknown, shorten("its status cannot be computed: " + err.Error())}
	}
	h = Health{result.Status.String(), result.Message}
	if h.Status != status.Terminating {
		switch u.GroupVersionKind().GroupKind().String() {
		case "Job.batch":
			h = ofJob(u, h)
		case "Pod":
			h = ofPod(u, h)
		case "Certificate.cert-manager.io", "CertificateRequest.cert-manager.io", "ClusterIssuer.cert-manager.io", "Issuer.cert-manager.io":
			h = ofCertManager(u, h)
		}
	}
	if h.Status == status.Current {
		return Health{Status: status.Current}
	}
	h.Reason = shorten(cmp.Or(h.Reason, "it is not ready yet"))
	return h
}

// ofJob refines what kstatus computed for a Job.
func ofJob(job *unstructured.Unstructured, computed Health) Health {
	switch {
	case computed.Status == status.Failed:
		if c := trueCondition(job, "Failed"); c != nil {
			computed.Reason = cmp.Or(c.Message, c.Reason, computed.Reason)
		}
	case isHook(job) && trueCondition(job, "Complete") == nil:
		return Health{status.InProgress, computed.Reason}
	}
	return computed
}

// ofPod refines what kstatus computed for a Pod.
func ofPod(pod *unstructured.Unstructured, computed Health) Health {
	owner := metav1.GetControllerOf(pod)
	task := isHook(pod) || owner != nil && owner.Kind == "Job"
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	switch {
	case phase == string(corev1.PodFailed):
		reason, _, _ := unstructured.NestedString(pod.Object, "status", "reason")
		message, _, _ := unstructured.NestedString(pod.Object, "status", "message")
		return Health{status.Failed, cmp.Or(message, reason, "the Pod failed")}
	case task && phase != string(corev1.PodSucceeded):
		if computed.Status == status.Current { // then the reason is that it is ready
			computed.Reason = "the Pod has not ended yet"
		}
		return Health{status.InProgress, computed.Reason}
	}
	return computed
}

// ofCertManager refines what kstatus computed for an object of cert-manager.
func ofCertManager(u *unstructured.Unstructured, computed Health) Health {
	ready := condition(u, "Ready")
	switch {
	case ready == nil:
		return Health{status.InProgress, "cert-manager has not reported its status yet"}
	case u.GetKind() == "CertificateRequest" && ready.Status == corev1.ConditionFalse && ready.Reason != "Pending":
		return Health{status.Failed, cmp.Or(ready.Message, ready.Reason)}
	}
	return computed
}

func isHook(u *unstructured.Unstructured) bool {
	a := u.GetAnnotations()
	return a[helmHook] != "" || a[emcoHook] != ""
}

// trueCondition returns the condition of a type, nil unless its status is True.
func trueCondition(u *unstructured.Unstructured, kind string) *kstatus.BasicCondition {
	if c := condition(u, kind); c != nil && c.Status == corev1.ConditionTrue {
		return c
	}
	return nil
}

// condition returns the condition of a type, nil if there is none.
func condition(u *unstructured.Unstructured, kind string) *kstatus.BasicCondition {
	o, err := kstatus.GetObjectWithConditions(u.Object)
	if err != nil {
		return nil
	}
	for i, c := range o.Status.Conditions {
		if c.Type == kind {
			return &o.Status.Conditions[i]
		}
	}
	return nil
}

// shorten folds a text into one line and cuts it to the limit of reports.
func shorten(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if len(text) > status.MaxReason {
		text = strings.ToValidUTF8(text[:status.MaxReason], "")
	}
	return text
}
