package v2_test

import (
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

func find(members []v2.Member, name string) v2.Member {
	for _, m := range members {
		if m.Is(name) {
			return m
		}
	}
	return v2.Member{}
}

func TestMembersOf(t *testing.T) {
	t.Parallel()
	spec := find(v2.MembersOf[v2.DeploymentIntentGroup](), "spec")
	if !spec.Closed() || spec.Type != "object" {
		t.Errorf("spec is %+v", spec)
	}
	for name, want := range map[string]v2.Member{
		"logicalcloud":    {Name: "logicalCloud", Type: "string", Field: "DeploymentIntentGroupSpec.LogicalCloud"},
		"logical-cloud":   {Name: "logicalCloud", Type: "string", Field: "DeploymentIntentGroupSpec.LogicalCloud"},
		"override-values": {Name: "overrideValues", Type: "list of objects", Field: "DeploymentIntentGroupSpec.Overrides"},
	} {
		if got := find(spec.Members, name); got.Name != want.Name || got.Type != want.Type || got.Field != want.Field {
			t.Errorf("%s is %+v, want %+v", name, got, want)
		}
	}
	overrides := find(spec.Members, "overrideValues")
	if values := find(overrides.Members, "values"); values.Type != "map of strings" || values.Closed() {
		t.Errorf("the values of an override are %+v", values)
	}
	kv := find(find(v2.MembersOf[v2.KV](), "spec").Members, "kv")
	if kv.Type != "list of maps of strings" || kv.Closed() {
		t.Errorf("kv is %+v", kv)
	}
	if got := find(v2.MembersOf[v2.AppIntent](), "metadata"); len(got.Members) != 4 {
		t.Errorf("metadata has %+v", got.Members)
	}
}
