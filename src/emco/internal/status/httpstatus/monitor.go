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

// agentStatus returns the status of an agent: what etcd knows of its last report, and of the last document of agents that report
// by HTTPS, or what this process knows if that is newer. Newer is what the control plane received later: sequences start again with
// each token.
func (s *Source) agentStatus(ctx context.Context, cluster v2.ClusterKey) (intake.AgentStatus, error) {
	own, known := s.options.Agents.Get(cluster)
	stored, err := s.documents.Agent(ctx, cluster)
	if err != nil || described(own) && !stored.At.After(own.Received) {
		return own, err
	}
	docs, err := s.documents.AgentDocuments(ctx, []v2.ClusterKey{cluster})
	if err != nil {
		return own, err
	}
	if !known && len(docs) == 0 { // a sign of life alone, of a cluster that reports through Git, does not describe its agent
		return own, errs.E(errs.NotFound, "monitor", cluster.String(), errors.New("it has not reported yet, or this process has not read its report yet"))
	}
	out := own
	out.Cluster = cluster
	for _, d := range docs {
		if described(own) && !d.At.After(own.Received) {
			continue
		}
		report, err := decode(d)
		if err != nil {
			return own, err
		}
		out = intake.Describe(report, d.At, d.At)
		out.Refused = own.Refused
	}
	if own.Received.After(out.Received) { // this process received a repetition of the document
		out.Seq, out.Received, out.Reported, out.Ahead = own.Seq, own.Received, own.Reported, own.Ahead
	}
	if !out.Received.IsZero() && stored.At.After(out.Received) { // another one did; etcd does not keep the cluster's own time of that
		out.Seq, out.Received, out.Reported, out.Ahead = stored.Seq, stored.At, time.Time{}, ""
	}
	return out, nil
}

// described reports whether a status holds what a report said, and not only that reports were repeated or refused.
func described(a intake.AgentStatus) bool { return a.Agent != "" }
