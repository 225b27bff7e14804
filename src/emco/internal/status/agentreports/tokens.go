package agentreports

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// defaultOverlap and maxOverlap are how long older tokens stay valid when a new one is made; a cluster
// has at most maxTokens.
const (
	defaultOverlap = time.Hour
	maxOverlap     = 30 * 24 * time.Hour
	maxTokens      = 8
)

// Make makes a token for a cluster. Older tokens stay valid for an hour, or for the duration
// ?overlap=, so that the agent can change over without a gap. The sequence of reports starts again.
// The answer to a dry run has no token.
func (e *Endpoint) Make(w http.ResponseWriter, r *http.Request, dry bool) error {
	cluster, err := web.Cluster(r)
	if err != nil {
		return err
	}
	overlap := defaultOverlap
	if text := r.URL.Query().Get("overlap"); text != "" {
		if overlap, err = time.ParseDuration(text); err != nil || overlap < 0 || overlap > maxOverlap {
			return errs.New(errs.Invalid, "overlap: give a duration such as 10m, of at most 720h")
		}
	}
	token := status.TokenPrefix + rand.Text()
	sum := sha256.Sum256([]byte(token))
	made := agents.Token{ID: hex.EncodeToString(sum[:4]), Sum: sum[:], Made: e.options.Now().UTC().Truncate(time.Second), By: web.Actor(r.Context())}
	if err := e.writer.addToken(r.Context(), cluster, made, overlap, dry); err != nil {
		return err
	}
	if dry {
		return web.JSON(w, http.StatusCreated, v2.NewReportToken{Path: status.Path(cluster)})
	}
	return web.JSON(w, http.StatusCreated, v2.NewReportToken{ID: made.ID, Token: token, Path: status.Path(cluster)})
}

// Show lists the tokens of a cluster without their secrets.
func (e *Endpoint) Show(w http.ResponseWriter, r *http.Request) error {
	cluster, err := web.Cluster(r)
	if err != nil {
		return err
	}
	a, err := e.writer.registered(r.Context(), cluster)
	if err != nil {
		return err
	}
	out := []v2.ReportToken{}
	for _, t := range validTokens(a.Tokens, e.options.Now()) {
		out = append(out, v2.ReportToken{ID: t.ID, Made: t.Made, Ends: t.Ends, Actor: t.By})
	}
	return web.JSON(w, http.StatusOK, out)
}

// Revoke makes tokens of a cluster invalid at once: the one of ?id=, or all.
func (e *Endpoint) Revoke(w http.ResponseWriter, r *http.Request, dry bool) error {
	cluster, err := web.Cluster(r)
	if err != nil {
		return err
	}
	id := r.URL.Query().Get("id")
	err = e.writer.updateAgent(r.Context(), cluster, dry, func(a *agents.Agent) error {
		left := slices.DeleteFunc(slices.Clone(a.Tokens), func(t agents.Token) bool { return id == "" || t.ID == id })
		if id != "" && len(left) == len(a.Tokens) {
			return errs.New(errs.NotFound, "the cluster has no token "+id)
		}
		a.Tokens = left
		return nil
	})
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// validTokens returns the tokens that have not ended.
func validTokens(tokens []agents.Token, now time.Time) []agents.Token {
	return slices.DeleteFunc(slices.Clone(tokens), func(t agents.Token) bool { return !t.Ends.IsZero() && !now.Before(t.Ends) })
}

func (w *ReportWriter) addToken(ctx context.Context, cluster v2.ClusterKey, made agents.Token, overlap time.Duration, dry bool) error {
	return w.updateAgent(ctx, cluster, dry, func(a *agents.Agent) error {
		ends := made.Made.Add(overlap)
		a.Tokens = validTokens(a.Tokens, made.Made)
		for i, t := range a.Tokens {
			if t.Ends.IsZero() || ends.Before(t.Ends) {
				a.Tokens[i].Ends = ends
			}
		}
		a.Seq = 0 // whoever holds the new token counts from the start
		if a.Tokens = append(validTokens(a.Tokens, made.Made), made); len(a.Tokens) > maxTokens {
			return errs.New(errs.Conflict, "the cluster has too many tokens that are still valid; revoke some")
		}
		return nil
	})
}

// registered reads the agent of a registered cluster that needs one. It drops the tokens of an
// earlier cluster of the same name.
func (w *ReportWriter) registered(ctx context.Context, cluster v2.ClusterKey) (agents.Agent, error) {
	c, err := w.clusters.Cluster(ctx, cluster)
	if err != nil {
		return agents.Agent{}, err
	}
	if c.Direct {
		return agents.Agent{}, errs.New(errs.Conflict, "the cluster is watched directly; nothing reports for it")
	}
	a, err := w.agents.Agent(ctx, cluster)
	if a.Registration != c.Registration {
		a.Registration, a.Tokens = c.Registration, nil
	}
	return a, err
}

// updateAgent changes an agent and retries when another process changes it at the same time.
// A dry run ends before the change.
func (w *ReportWriter) updateAgent(ctx context.Context, cluster v2.ClusterKey, dry bool, how func(*agents.Agent) error) error {
	for range 2 * maxTries {
		a, err := w.registered(ctx, cluster)
		if err == nil {
			err = how(&a)
		}
		if err != nil || dry {
			return err
		}
		now, ok, err := w.agents.UpdateAgents(ctx, []agents.Update{{Agent: a}})
		if err != nil {
			return err
		}
		if ok {
			w.invalidate(now[0])
			return nil
		}
	}
	return errs.E(errs.Unavailable, "change", "tokens of "+string(cluster), errors.New("its agent reports all the time; try again"))
}

// invalidate makes the next request of a cluster read its agent again.
func (w *ReportWriter) invalidate(a agents.Agent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q := w.queues[a.Cluster]; q != nil {
		q.checked = time.Time{}
		if q.waitingBatch == nil && q.writingBatch == nil && a.Mod > q.agent.Mod {
			q.agent = a
		}
	}
}
