package agentreports

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Monitor answers with the status of the agent of the cluster that the URL names: with what any process has
// accepted from it, and what any has refused.
func (s *Source) Monitor(w http.ResponseWriter, r *http.Request) error {
	cluster, err := web.Cluster(r)
	if err != nil {
		return err
	}
	a, err := s.agentStatus(r.Context(), cluster)
	if err != nil {
		return err
	}
	return web.JSON(w, http.StatusOK, a)
}

// agentStatus returns the status of an agent from etcd: that of its last document, and the last sign of life since. Newer is
// what the control plane received later: sequences start again with each token.
func (s *Source) agentStatus(ctx context.Context, cluster v2.ClusterKey) (intake.AgentStatus, error) {
	out := intake.AgentStatus{Cluster: cluster}
	stored, err := s.documents.Agent(ctx, cluster)
	if err != nil {
		return out, err
	}
	refused, err := s.documents.RefusalsOf(ctx, cluster)
	if err != nil {
		return out, err
	}
	docs, err := s.documents.AgentDocuments(ctx, []v2.ClusterKey{cluster})
	if err != nil {
		return out, err
	}
	if len(docs) == 0 && refused.Count == 0 { // a sign of life alone, which older versions store, does not describe the agent
		return out, errs.E(errs.NotFound, "monitor", cluster.String(), errors.New("it has not reported yet"))
	}
	for _, d := range docs {
		report, err := decode(d)
		if err != nil {
			return out, err
		}
		out = intake.Describe(report, d.At)
		if stored.Seq > 0 && stored.At.After(d.At) {
			out.Heard(stored.Seq, sentAt(stored), stored.At)
		}
	}
	if refused.Count > 0 {
		out.Refused = &intake.Refused{Count: refused.Count, Result: refused.Result, Why: refused.Why, Commit: refused.Commit, At: refused.At}
	}
	return out, nil
}

// sentAt returns when an agent sent its last sign of life, by its clock; zero if an older version stored it.
func sentAt(a agents.Agent) time.Time {
	if a.Sent == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(a.Sent))
}
