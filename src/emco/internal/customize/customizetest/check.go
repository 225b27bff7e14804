// Package customizetest checks the contract of action controllers.
package customizetest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
)

// Check puts a controller through its contract, with an intent that it makes edits for: equal
// calls give equal edits, edits are well formed, the context stays as it is, and an ended context
// is an error.
func Check(t *testing.T, c customize.Controller, at customize.Deployment) {
	t.Helper()
	apps := cloned(at.Apps)
	first, err := c.Customize(t.Context(), at)
	if err != nil {
		t.Fatalf("Customize: %v", err)
	}
	if len(first.Edits) == 0 {
		t.Fatal("the intent makes no edits, so that nothing can be checked")
	}
	if !reflect.DeepEqual(at.Apps, apps) {
		t.Errorf("the controller has changed the context to %v", at.Apps)
	}
	again, err := c.Customize(t.Context(), at)
	if err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("the second call answers %v, %v, the first one %v", again, err, first)
	}
	for i, e := range first.Edits {
		if fault := faultOf(e, apps); fault != "" {
			t.Errorf("edit %d, of %s: %s", i, e.Origin, fault)
		}
	}
	for _, f := range first.Findings {
		if f.Text == "" || !slices.ContainsFunc(apps, func(a customize.App) bool { return a.Name == f.App }) {
			t.Errorf("finding %+v has no text, or is about no app of the context", f)
		}
	}
	nowhere := at
	nowhere.Apps = nil
	if none, err := c.Customize(t.Context(), nowhere); err != nil || len(none.Edits) > 0 {
		t.Errorf("without apps: %v, %v", none, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Customize(ended, at); err == nil {
		t.Error("an ended context is no error")
	}
}

func cloned(apps []customize.App) (out []customize.App) {
	for _, a := range apps {
		a.Clusters = slices.Clone(a.Clusters)
		out = append(out, a)
	}
	return out
}

// faultOf returns what is wrong with an edit; empty if nothing is.
func faultOf(e customize.Edit, apps []customize.App) string {
	i := slices.IndexFunc(apps, func(a customize.App) bool { return a.Name == e.App })
	changes := 0
	for _, set := range []bool{e.Values != nil, e.Object != nil, e.Patch != nil} {
		if set {
			changes++
		}
	}
	switch {
	case i < 0:
		return "app " + e.App + " is not in the context"
	case e.Origin == "":
		return "it has no origin"
	case changes != 1:
		return fmt.Sprintf("it makes %d changes", changes)
	case e.Clusters != nil && len(e.Clusters) == 0:
		return "it is for no cluster"
	case !slices.IsSorted(e.Clusters) || len(slices.Compact(slices.Clone(e.Clusters))) != len(e.Clusters):
		return fmt.Sprintf("its clusters are not sorted, or not each once: %v", e.Clusters)
	case slices.ContainsFunc(e.Clusters, func(c v2.ClusterKey) bool { return !apps[i].Has(c) }):
		return fmt.Sprintf("it is for clusters that the app does not go to: %v", e.Clusters)
	case e.Patch != nil && len(e.Patch.Text) == 0:
		return "its patch is empty"
	}
	return ""
}
