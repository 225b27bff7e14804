package ocm

import (
	"encoding/json"
	"strings"
	"testing"
)

// A cluster that is registered is in the set that the placement selects from, and has a namespace of its name.
func TestARegisteredClusterCanBeSelected(t *testing.T) {
	text, err := json.Marshal(registration("m1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"kind":"Namespace","metadata":{"name":"m1"}`, `"cluster.open-cluster-management.io/clusterset":"fleet"`, `"hubAcceptsClient":true`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the registration lacks %s:\n%s", want, text)
		}
	}
	for _, want := range []string{"metadata: {name: fleet, namespace: default}", "spec: {clusterSets: [fleet]}"} {
		if !strings.Contains(hubObjects, want) {
			t.Errorf("the hub lacks %s", want)
		}
	}
}
