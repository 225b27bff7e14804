package pair

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/steps"
)

// job is a hook's object, in the content "1".
var job = appcontext.Ref{ID: manifest.ID{Group: "batch", Version: "v1", Kind: "Job", Namespace: "shop", Name: "migrate"}, Digest: "d", Stamp: "1"}

// said is an agent's report on objects, with their status and content.
func said(objects ...appcontext.ResourceStatus) *appcontext.Report {
	return &appcontext.Report{Seq: 1, Resources: objects}
}

func is(ref appcontext.Ref, status, content, reason string) appcontext.ResourceStatus {
	ref.Version = "v1beta1" // clusters may convert
	return appcontext.ResourceStatus{ID: ref.ID, Status: status, Content: content, Reason: reason}
}

func TestReportsProveNeedsForTheDesiredContent(t *testing.T) {
	t.Parallel()
	web := appcontext.Ref{ID: manifest.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web"}, Stamp: "1"}
	unstamped, watched, cut := web, said(), said()
	unstamped.Stamp, watched.Seq, cut.Truncated = "", 0, 3
	complete := func(ref appcontext.Ref) steps.Step {
		return steps.Step{Kind: steps.Run, Event: "pre-install", Hook: &appcontext.HookRef{Ref: ref}, Need: steps.Complete, About: []appcontext.Ref{ref}}
	}
	ready := func(ref appcontext.Ref) steps.Step {
		return steps.Step{Kind: steps.Main, Need: steps.Ready, About: []appcontext.Ref{ref}}
	}
	gone := steps.Step{Kind: steps.Clear, Need: steps.Gone, About: []appcontext.Ref{job}}
	tests := []struct {
		name   string
		step   steps.Step
		report *appcontext.Report
		want   string // "met", "failed: …" or what is waited for
	}{
		{"a step without a need", steps.Step{}, nil, "met"},
		{"no report", complete(job), nil, "waits for pre-install hook Job migrate: not reported yet"},
		{"a hook that succeeded", complete(job), said(is(job, "Current", "1", "")), "met"},
		{"one of an earlier content that succeeded", complete(job), said(is(job, "Current", "0", "")), "waits for pre-install hook Job migrate: its content differs"},
		{"one that runs", complete(job), said(is(job, "InProgress", "1", "1 active")), "waits for pre-install hook Job migrate: InProgress: 1 active"},
		{"one that failed", complete(job), said(is(job, "Failed", "1", "back-off limit")), "failed: pre-install hook Job migrate failed: back-off limit"},
		{"one of an earlier content that failed", complete(job), said(is(job, "Failed", "0", "x")), "waits for pre-install hook Job migrate: its content differs; x"},
		{"a hook that may get well", complete(web), said(is(web, "Failed", "1", "no quota")), "waits for pre-install hook Deployment web: Failed: no quota"},
		{"an object that is ready", ready(web), said(is(web, "Current", "1", "")), "met"},
		{"one that was before", ready(web), said(is(web, "Current", "0", "")), "waits for the app's objects: Deployment web: its content differs"},
		{"one without a stamp", ready(unstamped), said(is(web, "Current", "0", "")), "met"},
		{"one whose cluster is silent", ready(web), said(is(web, "Unknown", "1", "no word since noon")), "waits for the app's objects: Deployment web: Unknown: no word since noon"},
		{"gone, by a watch that looks for it", gone, said(is(job, "NotFound", "", "")), "met"},
		{"there still", gone, said(is(job, "Terminating", "1", "")), "waits for Job migrate to be gone: Terminating"},
		{"not named by an agent", gone, said(), "met"},
		{"not named by an agent that cut its report", gone, cut, "waits for Job migrate to be gone: not reported yet"},
		{"not looked for yet by a watch", gone, watched, "waits for Job migrate to be gone: not reported yet"},
		{"of a pair without a report", gone, nil, "met"},
	}
	for _, tt := range tests {
		v := CheckStep(tt.step, tt.report)
		got := v.Why
		if v.Failed {
			got = "failed: " + got
		}
		if v.Met {
			got = "met"
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestTextOfOthersIsClipped(t *testing.T) {
	t.Parallel()
	long := said(is(job, "Failed", "1", strings.Repeat("é", 5000)))
	v := CheckStep(steps.Step{Kind: steps.Run, Hook: &appcontext.HookRef{Ref: job}, Need: steps.Complete, About: []appcontext.Ref{job}}, long)
	if !v.Failed || len(v.Why) > maxText+len("…") {
		t.Errorf("the text has %d bytes", len(v.Why))
	}
}

func TestReadyNeedsAllObjectsInTheirContent(t *testing.T) {
	t.Parallel()
	ref := func(name string) appcontext.Ref {
		return appcontext.Ref{ID: manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: name}, Stamp: "1"}
	}
	b := appcontext.Bundle{Objects: []appcontext.Ref{ref("a"), ref("b")}, Hooks: []appcontext.HookRef{{Ref: job}}}
	a := is(ref("a"), "Current", "1", "")
	for _, tt := range []struct {
		report *appcontext.Report
		why    string
	}{
		{said(a, is(ref("b"), "Current", "1", "")), ""},
		{said(a, is(ref("b"), "Current", "2", "")), "ConfigMap b: its content differs"},
		{said(a, is(ref("b"), "InProgress", "1", "0 of 1 available")), "ConfigMap b: InProgress: 0 of 1 available"},
		{said(a), "ConfigMap b: not reported yet"},
		{said(a, is(ref("b"), "NotFound", "", "")), "ConfigMap b: NotFound"},
	} {
		if ready, why := ReadyIn(b, tt.report); ready != (tt.why == "") || why != tt.why {
			t.Errorf("got %v, %q; want %q", ready, why, tt.why)
		}
	}
}
