// Package kubehealthtest has the table of objects and the health that users must see. It tests
// the judgement, the direct watch and the monitor with one table.
package kubehealthtest

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/api/status"
)

// Case is an object and its health.
type Case struct {
	Name   string
	Object *unstructured.Unstructured
	Status string
	Reason string // must be in the reported reason
}

type tree = map[string]any

// Cases returns the table. The objects are called "x", are in the namespace "n", and have
// the given labels.
func Cases(labels map[string]string) []Case {
	helmHook, emcoHook := notes("helm.sh/hook"), notes("emco/hook")
	ofJob, ofSet := controller("batch/v1", "Job"), controller("apps/v1", "ReplicaSet")
	job := func(name string, metadata, state tree, want, reason string) Case {
		return Case{name, object("batch/v1", "Job", metadata, tree{"status": state}, labels), want, reason}
	}
	pod := func(name string, metadata, state tree, want, reason string) Case {
		return Case{name, object("v1", "Pod", metadata, tree{"status": state}, labels), want, reason}
	}
	other := func(name, apiVersion, kind string, metadata, rest tree, want, reason string) Case {
		return Case{name, object(apiVersion, kind, metadata, rest, labels), want, reason}
	}
	const began = "2026-11-21T12:00:00Z"
	var (
		started   = tree{"startTime": began, "active": int64(1)}
		complete  = tree{"startTime": began, "conditions": conditions("Complete", "True", "")}
		going     = tree{"startTime": began, "active": int64(1), "conditions": conditions("Complete", "False", "")}
		broken    = tree{"startTime": began, "conditions": conditions("Failed", "True", "back-off limit reached")}
		ready     = tree{"phase": "Running", "conditions": conditions("Ready", "True", "")}
		succeeded = tree{"phase": "Succeeded"}
		failed    = tree{"phase": "Failed"}
		evicted   = tree{"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}
		crashing  = tree{"phase": "Running", "containerStatuses": []any{tree{"name": "c", "state": tree{"waiting": tree{"reason": "CrashLoopBackOff"}}}}}
	)
	return []Case{
		// A Job that is not a hook follows kstatus: a deployment with a long-running Job is
		// ready when the Job has started.
		job("a Job that has not started", nil, tree{}, status.InProgress, "not started"),
		job("a Job that runs", nil, started, status.Current, ""),
		job("a Job that completed", nil, complete, status.Current, ""),
		job("a Job that failed", nil, broken, status.Failed, "back-off limit reached"),

		// The next step of a deployment waits for the result of a hook. The annotation has
		// another name in Git, and an object may be applied from there to a direct cluster.
		job("a hook that has not started", helmHook, tree{}, status.InProgress, "not started"),
		job("a hook that runs", helmHook, started, status.InProgress, "Job in progress"),
		job("a hook with the condition Complete=False", helmHook, going, status.InProgress, "Job in progress"),
		job("a hook that completed", helmHook, complete, status.Current, ""),
		job("a hook that failed", helmHook, broken, status.Failed, "back-off limit reached"),
		job("a hook from Git that runs", emcoHook, started, status.InProgress, "Job in progress"),
		job("a hook from Git that completed", emcoHook, complete, status.Current, ""),
		job("a hook that is deleted while it runs", with(helmHook, "deletionTimestamp", began), started, status.Terminating, ""),

		// kstatus calls a failed Pod Current, because it has ended. Users see it as failed: so
		// does kubectl, and nothing restarts a bare Pod.
		pod("a bare Pod that is ready", nil, ready, status.Current, ""),
		pod("a bare Pod that succeeded", nil, succeeded, status.Current, ""),
		pod("a bare Pod that failed", nil, failed, status.Failed, "the Pod failed"),
		pod("a bare Pod that crashes", nil, crashing, status.Failed, "CrashLoop"),
		pod("a Pod of a ReplicaSet that is ready", ofSet, ready, status.Current, ""),
		pod("a Pod of a ReplicaSet that was evicted", ofSet, evicted, status.Failed, "low on memory"),

		// A Pod with a task has done it when it succeeded. While it runs, even if it crashes, its
		// restarts may help: Failed would end the deployment's step.
		pod("a hook Pod that runs", helmHook, ready, status.InProgress, "not ended"),
		pod("a hook Pod that crashes", helmHook, crashing, status.InProgress, "CrashLoop"),
		pod("a hook Pod that succeeded", helmHook, succeeded, status.Current, ""),
		pod("a hook Pod that failed", helmHook, evicted, status.Failed, "low on memory"),
		pod("a hook Pod from Git that runs", emcoHook, ready, status.InProgress, "not ended"),
		pod("a Pod of a Job that runs", ofJob, ready, status.InProgress, "not ended"),
		pod("a Pod of a Job that succeeded", ofJob, succeeded, status.Current, ""),
		pod("a Pod of a Job that failed", ofJob, failed, status.Failed, "the Pod failed"),

		// kstatus calls an object without a status Current. cert-manager has a condition for whatever it
		// has looked at, and does not try a request again.
		other("a request for a certificate that cert-manager has not seen", "cert-manager.io/v1", "CertificateRequest", nil, nil, status.InProgress, "has not reported"),
		other("an approved request", "cert-manager.io/v1", "CertificateRequest", nil, tree{"status": tree{"conditions": conditions("Approved", "True", "")}}, status.InProgress, "has not reported"),
		other("a request that waits", "cert-manager.io/v1", "CertificateRequest", nil, certState("False", "Pending", "waiting"), status.InProgress, "waiting"),
		other("a request that was denied", "cert-manager.io/v1", "CertificateRequest", nil, certState("False", "Denied", "not by policy"), status.Failed, "not by policy"),
		other("a request that cannot be signed", "cert-manager.io/v1", "CertificateRequest", nil, certState("False", "Failed", "no key"), status.Failed, "no key"),
		other("a signed request", "cert-manager.io/v1", "CertificateRequest", nil, certState("True", "Issued", ""), status.Current, ""),
		other("an issuer that cert-manager has not seen", "cert-manager.io/v1", "ClusterIssuer", nil, nil, status.InProgress, "has not reported"),
		other("an issuer whose Secret is missing", "cert-manager.io/v1", "ClusterIssuer", nil, certState("False", "ErrGetKeyPair", "no secret"), status.InProgress, "no secret"),

		// All else follows kstatus.
		other("a Service that is a hook", "v1", "Service", helmHook, nil, status.Current, ""),
		other("an object that is being deleted", "v1", "Service", tree{"deletionTimestamp": began}, nil, status.Terminating, ""),
		other("a Deployment whose controller has not seen it", "apps/v1", "Deployment", tree{"generation": int64(2)},
			tree{"status": tree{"observedGeneration": int64(1)}}, status.InProgress, "generation"),
		other("a custom object that is not ready", "example.org/v1", "Thing", nil,
			tree{"status": tree{"conditions": conditions("Ready", "False", "not yet")}}, status.InProgress, "not yet"),
		other("an object that cannot be judged", "apps/v1", "Deployment", nil,
			tree{"status": "splendid", "spec": []any{int64(7)}}, status.Unknown, "cannot be computed"),
	}
}

func object(apiVersion, kind string, metadata, rest tree, labels map[string]string) *unstructured.Unstructured {
	m := tree{"name": "x", "namespace": "n"}
	maps.Copy(m, metadata)
	o := tree{"apiVersion": apiVersion, "kind": kind, "metadata": m}
	maps.Copy(o, rest)
	u := &unstructured.Unstructured{Object: o}
	u.SetLabels(labels)
	return u
}

func notes(key string) tree { return tree{"annotations": tree{key: "pre-install"}} }

func with(metadata tree, key string, value any) tree {
	out := maps.Clone(metadata)
	out[key] = value
	return out
}

func controller(apiVersion, kind string) tree {
	return tree{"ownerReferences": []any{tree{"apiVersion": apiVersion, "kind": kind, "name": "o", "uid": "u", "controller": true}}}
}

func certState(value, reason, message string) tree {
	return tree{"status": tree{"conditions": []any{tree{"type": "Ready", "status": value, "reason": reason, "message": message}}}}
}

func conditions(kind, value, message string) []any {
	return []any{tree{"type": kind, "status": value, "message": message}}
}
