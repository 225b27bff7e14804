package output_test

import (
	"net/http"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// The action that a refusal proposes exists for what was refused, by a name that emcoctl takes.
func TestRefusedActionsNameTheNextOne(t *testing.T) {
	t.Parallel()
	const group, cloud = "projects/p/composite-apps/a/v1/deployment-intent-groups/g", "projects/p/logical-clouds/c"
	for _, c := range []struct{ path, state, want string }{
		{group + "/instantiate", "Created", "approve it first: emcoctl approve p/a/v1/g"},
		{group + "/update", "Terminated", "instantiate it first: emcoctl instantiate p/a/v1/g"},
		{group + "/instantiate", "Instantiated", "to roll out changed documents: emcoctl update p/a/v1/g"},
		{group + "/stop", "Created", ""},
		{cloud + "/update", "Created", "instantiate it first: emcoctl instantiate " + cloud},
		{cloud + "/update", "Terminated", "instantiate it first: emcoctl instantiate " + cloud},
		{cloud + "/instantiate", "Instantiated", "to roll out changed documents: emcoctl update " + cloud},
		{cloud + "/approve", "Created", ""},
		{"cluster-providers/e/ca-certs/x/enrollment/instantiate", "Instantiated", ""},
	} {
		refusal := &client.Response{Status: http.StatusConflict, Body: []byte("not allowed in state " + c.state + "; allowed in others")}
		if got := output.Next(refusal.Err(http.MethodPost, c.path)); got != c.want {
			t.Errorf("%s in state %s: next %q, want %q", c.path, c.state, got, c.want)
		}
	}
}
