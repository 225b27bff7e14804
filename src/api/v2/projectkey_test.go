package v2_test

import (
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

func TestKeysBelowAProjectAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	version := v2.CompositeAppKey{Project: "shop", Name: "till", Version: "v1"}
	app, group := v2.AppKey{CompositeApp: version, Name: "web"}, v2.GroupKey{CompositeApp: version, Name: "autumn"}
	cloud := v2.LogicalCloudKey{Project: "shop", Name: "edge"}
	for key, want := range map[string]string{
		v2.ProjectStoreKey("shop"): "projects/shop",
		version.StoreKey():         "projects/shop/composite-apps/till/v1",
		app.StoreKey():             "projects/shop/composite-apps/till/v1/apps/web",
		group.StoreKey():           "projects/shop/composite-apps/till/v1/deployment-intent-groups/autumn",
		cloud.StoreKey():           "projects/shop/logical-clouds/edge",
	} {
		if key != want {
			t.Errorf("got the key %s, want %s", key, want)
		}
	}
	for _, key := range []string{version.StoreKey(), app.StoreKey(), group.StoreKey(), group.StoreKey() + "/intents/i"} {
		if got, ok := v2.CompositeAppOf(key); !ok || got != version {
			t.Errorf("CompositeAppOf(%s) = %v, %t", key, got, ok)
		}
	}
	if got, ok := v2.AppOf(app.StoreKey()); !ok || got != app {
		t.Errorf("AppOf = %v, %t", got, ok)
	}
	if got, ok := v2.GroupOf(group.StoreKey()); !ok || got != group {
		t.Errorf("GroupOf = %v, %t", got, ok)
	}
	if got, ok := v2.LogicalCloudOf(cloud.StoreKey()); !ok || got != cloud {
		t.Errorf("LogicalCloudOf = %v, %t", got, ok)
	}
	for key, want := range map[string]string{
		group.StoreKey(): "shop/till/v1/autumn", cloud.StoreKey(): "shop/edge", app.StoreKey(): app.StoreKey(), "42": "42",
	} {
		if got := v2.ShortName(key); got != want {
			t.Errorf("ShortName(%s) = %s, want %s", key, got, want)
		}
	}
}

func TestProjectOf(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"projects/p": "p", "projects/p/composite-apps/a/v1": "p", "cluster-providers/p": "", "projects": "", "42": "", "": "",
	} {
		if got := v2.ProjectOf(key); got != want {
			t.Errorf("ProjectOf(%q) = %q, want %q", key, got, want)
		}
	}
}

func TestOtherKeysAreNotTakenForThem(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		"", "projects", "projects/p", "projects/p/composite-apps", "projects/p/composite-apps/a", "projects/p/logical-clouds",
		"cluster-providers/edge/clusters/c1", "cluster-providers/p/composite-apps/a/v1/apps/web", "projects/p/logical-clouds/l/cluster-references/r",
		"projects/p/composite-apps/a/v1/apps/web/dependency/d", "projects/p/composite-apps/a/v1/deployment-intent-groups",
	} {
		if k, ok := v2.AppOf(key); ok {
			t.Errorf("AppOf(%q) = %v", key, k)
		}
		if k, ok := v2.GroupOf(key); ok {
			t.Errorf("GroupOf(%q) = %v", key, k)
		}
		if k, ok := v2.LogicalCloudOf(key); ok {
			t.Errorf("LogicalCloudOf(%q) = %v", key, k)
		}
		if k, ok := v2.CompositeAppOf(key); ok && len(key) < len("projects/p/composite-apps/a/v1") {
			t.Errorf("CompositeAppOf(%q) = %v", key, k)
		}
	}
}
