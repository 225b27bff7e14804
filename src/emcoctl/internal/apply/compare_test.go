package apply

import (
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, kind, sent, stored string
		want                     documentComparison
	}{
		{"the same", "projects", `{"metadata":{"name":"p"}}`, `{"metadata":{"name":"p","description":"","userData1":"","userData2":""}}`, same},
		{"another description", "projects", `{"metadata":{"name":"p","description":"x"}}`, `{"metadata":{"name":"p","description":""}}`, different},
		{"a description taken away", "projects", `{"metadata":{"name":"p"}}`, `{"metadata":{"name":"p","description":"x"}}`, different},
		{"a member the server does not know", "generic-placement-intents", `{"metadata":{"name":"g"},"spec":{"logicalCloud":"l"}}`, `{"metadata":{"name":"g"}}`, same},
		{"another case of a member", "cluster-references", `{"metadata":{"name":"c"},"spec":{"clusterProvider":"p","cluster":"c","loadbalancerIp":"1.2.3.4"}}`, `{"metadata":{"name":"c"},"spec":{"clusterProvider":"p","cluster":"c","loadBalancerIP":"1.2.3.4","certificate":"x"}}`, same},
		{"an alias of a type", "clusters", `{"metadata":{"name":"c"},"spec":{"gitOps":{"gitOpsType":"fluxv2"}}}`, `{"metadata":{"name":"c"},"spec":{"gitOps":{"gitOpsType":"fluxcd"}}}`, same},
		{"an absent list", "deployment-intent-groups", `{"metadata":{"name":"d"},"spec":{"version":"r"}}`, `{"metadata":{"name":"d"},"spec":{"version":"r","overrideValues":[]}}`, same},
		{"an override taken away", "deployment-intent-groups", `{"spec":{"overrideValues":[]}}`, `{"spec":{"overrideValues":[{"app":"a","values":{"k":"v"}}]}}`, different},
		{"a secret override", "deployment-intent-groups", `{"spec":{"overrideValues":[{"app":"a","values":{"db.password":"s"}}]}}`, `{"spec":{"overrideValues":[{"app":"a","values":{"db.password":"***"}}]}}`, undecided},
		{"a number for a string", "kv-pairs", `{"spec":{"kv":[{"port":80}]}}`, `{"spec":{"kv":[{"port":"80"}]}}`, same},
		{"keys that differ by case", "kv-pairs", `{"spec":{"kv":[{"Port":"80"}]}}`, `{"spec":{"kv":[{"port":"80"}]}}`, different},
		{"a secret", "cluster-sync-objects", `{"spec":{"kv":[{"branch":"m"},{"gitToken":"t"}]}}`, `{"spec":{"kv":[{"branch":"m"},{"gitToken":"***"}]}}`, undecided},
		{"a secret that is new", "cluster-sync-objects", `{"spec":{"kv":[{"branch":"m"},{"gitToken":"t"}]}}`, `{"spec":{"kv":[{"branch":"m"}]}}`, different},
		{"the namespace of an admin cloud", "logical-clouds", `{"spec":{"level":"0"}}`, `{"spec":{"level":"0","namespace":"default"}}`, same},
		{"the default level", "logical-clouds", `{"spec":{"namespace":"n"}}`, `{"spec":{"level":"1","namespace":"n"}}`, same},
		{"another namespace", "logical-clouds", `{"spec":{"namespace":"m"}}`, `{"spec":{"level":"1","namespace":"n"}}`, different},
		{"an unknown collection", "zebras", `{"metadata":{"name":"h"},"spec":{"app":"a","x":[]}}`, `{"metadata":{"name":"h","description":""},"spec":{"app":"a"}}`, same},
		{"an unknown collection that differs", "zebras", `{"spec":{"app":"a","x":1}}`, `{"spec":{"app":"a"}}`, different},
		{"an answer that is no JSON", "projects", `{"metadata":{"name":"p"}}`, `<html>`, different},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := compare(tt.kind, []byte(tt.sent), []byte(tt.stored)); got != tt.want {
				t.Errorf("compare = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestTouched(t *testing.T) {
	t.Parallel()
	const base = "projects/p/composite-apps/a/v1/deployment-intent-groups/d"
	for path, want := range map[string]bool{
		"projects/p/composite-apps/a/v1/apps/web":                        true,
		"projects/p/composite-apps/a/v1/composite-profiles/c/profiles/x": true,
		base:                true,
		base + "/intents/i": true,
		"projects/p/composite-apps/a/v1/deployment-intent-groups/other": false,
		"projects/p/composite-apps/a/v2/apps/web":                       false,
		"projects/p":                  false,
		"cluster-providers/edge":      false,
		"projects/p/logical-clouds/l": false,
	} {
		e := &Executor{changed: []string{path}}
		if got := e.touched(base); got != want {
			t.Errorf("touched after %s = %v, want %v", path, got, want)
		}
	}
	cloud := &Executor{changed: []string{"projects/p/logical-clouds/l/cluster-references/r"}}
	if !cloud.touched("projects/p/logical-clouds/l") {
		t.Error("a cluster reference does not touch its cloud")
	}
}

// The server chooses the location of a cluster in Git, and moves it: a document that leaves the
// location open, or names the one before the move, has not changed.
func TestF12MovedClustersAreUnchanged(t *testing.T) {
	t.Parallel()
	const open = `{"metadata":{"name":"c"},"spec":{"gitOps":{"gitOpsType":"flux","gitOpsReferenceObject":"r"}}}`
	const fixed = `{"metadata":{"name":"c"},"spec":{"gitOps":{"gitOpsType":"fluxcd","gitOpsReferenceObject":"r","gitOpsShard":"s001"}}}`
	const seated = `{"metadata":{"name":"c"},"spec":{"gitOps":{"gitOpsType":"fluxcd","gitOpsReferenceObject":"r","gitOpsRefMode":"shard","gitOpsShard":"s001","gitOpsFanOut":true}}}`
	const moved = `{"metadata":{"name":"c"},"spec":{"gitOps":{"gitOpsType":"argocd","gitOpsReferenceObject":"r","gitOpsRefMode":"shard","gitOpsShard":"s004",
		"gitOpsMoved":{"number":2,"from":{"gitOpsType":"fluxcd","gitOpsShard":"s002"}}}}}`
	const other = `{"metadata":{"name":"c"},"spec":{"gitOps":{"gitOpsType":"flux","gitOpsReferenceObject":"q"}}}`
	const direct = `{"metadata":{"name":"c"},"spec":{"gitOps":{}}}`
	for _, tt := range []struct {
		name, sent, stored string
		want               documentComparison
		moved              bool
	}{
		{"an open location", open, seated, same, false},
		{"the same location", fixed, seated, same, false},
		{"another location", strings.Replace(fixed, "s001", "s009", 1), seated, different, false},
		{"open, and moved", open, moved, same, true},
		{"named, and moved", fixed, moved, same, true},
		{"another sync object", other, moved, different, true},
		{"a direct cluster", direct, direct, same, false},
		{"a direct cluster that pulls now", open, direct, different, false},
	} {
		sent, wasMoved := withLocation([]byte(tt.sent), []byte(tt.stored))
		if got := compare("clusters", sent, []byte(tt.stored)); got != tt.want || wasMoved != tt.moved {
			t.Errorf("%s: %v, moved %v; want %v, %v", tt.name, got, wasMoved, tt.want, tt.moved)
		}
	}
}

// A cluster that only is at another place is not to be deleted.
func TestF12AdviceForClusters(t *testing.T) {
	t.Parallel()
	const here = `{"metadata":{"name":"c"},"spec":{"gitOps":{"gitOpsType":"git","gitOpsReferenceObject":"r","gitOpsRefMode":"shard","gitOpsShard":"s001"}}}`
	for sent, want := range map[string]string{
		strings.Replace(here, "s001", "s000", 1):   "move it with emcoctl move",
		strings.Replace(here, `"r"`, `"q"`, 1):     "delete it and register it again",
		strings.Replace(here, `"git"`, `"oci"`, 1): "move it with emcoctl move",
	} {
		e := New(Options{})
		if r := e.failInPlace(documentRequest{}, "cluster-providers/p/clusters/c", []byte(sent), []byte(here)); !strings.Contains(r.Advice, want) {
			t.Errorf("%s: %s, want %s", sent, r.Advice, want)
		}
	}
}
