package httpstatus

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Monitor answers with the status of the agent of the cluster that the URL names: with what any process has
// accepted from it, and with what this process has refused.
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

// agentStatus returns the status of an agent, from this process or from etcd: whichever knows its newer report.
func (s *Source) agentStatus(ctx context.Context, cluster v2.ClusterKey) (intake.AgentStatus, error) {
	own, known := s.options.Agents.Get(cluster)
	stored, err := s.documents.Agent(ctx, cluster)
	switch {
	case err != nil:
		return own, err
	case !known && stored.Seq == 0:
		return own, errs.E(errs.NotFound, "monitor", cluster.String(), errors.New("it has not reported yet"))
	case stored.Seq <= own.Seq:
		return own, nil
	}
	docs, err := s.documents.AgentDocuments(ctx, []v2.ClusterKey{cluster})
	if err != nil {
		return own, err
	}
	out := own
	out.Cluster = cluster
	for _, d := range docs {
		report, err := decode(d)
		if err != nil {
			return own, err
		}
		if report.Seq > own.Seq {
			out = intake.Describe(report, d.At, d.At)
			out.Refused = own.Refused
		}
	}
	if stored.Seq > out.Seq { // the agent has repeated its report since; etcd does not keep the cluster's own time of that
		out.Seq, out.Received, out.Reported, out.Ahead = stored.Seq, stored.At, time.Time{}, ""
	}
	return out, nil
}
