package judge_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/monitor/internal/judge"
)

type tree = map[string]any

func object(apiVersion, kind string, metadata, rest tree) *unstructured.Unstructured {
	o := tree{"apiVersion": apiVersion, "kind": kind, "metadata": tree{"name": "x", "namespace": "n"}}
	for k, v := range metadata {
		o["metadata"].(tree)[k] = v
	}
	for k, v := range rest {
		o[k] = v
	}
	return &unstructured.Unstructured{Object: o}
}

func condition(kind, value string) tree { return tree{"type": kind, "status": value} }

func TestObject(t *testing.T) {
	t.Parallel()
	hook := tree{"annotations": tree{"helm.sh/hook": "pre-install"}}
	ofJob := tree{"ownerReferences": []any{tree{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true}}}
	ofSet := tree{"ownerReferences": []any{tree{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}}}
	running := tree{"status": tree{"phase": "Running", "conditions": []any{condition("Ready", "True")}}}
	started := tree{"status": tree{"startTime": "2026-01-01T00:00:00Z", "active": int64(1)}}
	for _, c := range []struct {
		name string
		u    *unstructured.Unstructured
		want string
	}{
		{"a ConfigMap", object("v1", "ConfigMap", nil, nil), "Current"},
		{"a Deployment that nobody looked at yet", object("apps/v1", "Deployment", tree{"generation": int64(2)}, tree{"status": tree{"observedGeneration": int64(1)}}), "InProgress"},
		{"what is being deleted", object("v1", "ConfigMap", tree{"deletionTimestamp": "2026-01-01T00:00:00Z"}, nil), "Terminating"},
		{"a Job that started", object("batch/v1", "Job", nil, started), "Current"},
		{"a hook that started", object("batch/v1", "Job", hook, started), "InProgress"},
		{"a hook that completed", object("batch/v1", "Job", hook, tree{"status": tree{"conditions": []any{condition("Complete", "True")}}}), "Current"},
		{"a hook by EMCO's name that started", object("batch/v1", "Job", tree{"annotations": tree{"emco/hook": "pre-install"}}, started), "InProgress"},
		{"a hook that failed", object("batch/v1", "Job", hook, tree{"status": tree{"conditions": []any{condition("Failed", "True")}}}), "Failed"},
		{"a Pod of a ReplicaSet that runs", object("v1", "Pod", ofSet, running), "Current"},
		{"a Pod of a Job that runs", object("v1", "Pod", ofJob, running), "InProgress"},
		{"a Pod of a Job that succeeded", object("v1", "Pod", ofJob, tree{"status": tree{"phase": "Succeeded"}}), "Current"},
		{"a Pod of a Job that failed", object("v1", "Pod", ofJob, tree{"status": tree{"phase": "Failed"}}), "Failed"},
		{"a Pod that is a hook and runs", object("v1", "Pod", hook, running), "InProgress"},
		{"a custom object that says it is not ready", object("example.org/v1", "Thing", nil, tree{"status": tree{"conditions": []any{condition("Ready", "False")}}}), "InProgress"},
		{"an object of absurd form", object("apps/v1", "Deployment", nil, tree{"status": "splendid", "spec": []any{7}}), "Unknown"},
	} {
		state, reason := judge.Object(c.u)
		if state != c.want || (state == "Current") != (reason == "") {
			t.Errorf("%s: Object = %s, %q, want %s, and a reason unless it is Current", c.name, state, reason, c.want)
		}
	}
}

func TestReasonsAreShort(t *testing.T) {
	t.Parallel()
	long := object("example.org/v1", "Thing", nil, tree{"status": tree{"conditions": []any{tree{"type": "Ready", "status": "False", "message": "line\n" + strings.Repeat("é", 500)}}}})
	if _, reason := judge.Object(long); len(reason) > 256 || strings.Contains(reason, "\n") || len(reason) < 200 {
		t.Errorf("the reason has %d bytes: %q", len(reason), reason)
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	if state, _ := judge.Metadata(object("v1", "Secret", nil, nil)); state != "Current" {
		t.Errorf("Metadata = %s, want Current", state)
	}
	if state, _ := judge.Metadata(object("v1", "Secret", tree{"deletionTimestamp": "2026-01-01T00:00:00Z"}, nil)); state != "Terminating" {
		t.Errorf("Metadata = %s, want Terminating", state)
	}
}
