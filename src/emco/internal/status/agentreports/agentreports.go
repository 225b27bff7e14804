// Package agentreports stores the reports of agents, which they send by HTTPS or which one process reads
// from Git, and delivers them in all processes. Any process may accept a report by HTTPS. It answers after
// etcd has the report on disk, and stores concurrent reports in one transaction.
//
//	agent ──POST──► Endpoint: token, size, form ──► ReportWriter ──transaction──► etcd
//	gitstatus: the cluster's branch ──────────────►  token, sequence                │
//	   rsync ◄── Source: one report per pair ◄──────────────────watch───────────────┘
//
// Each agent has a token that allows nothing but its reports. The transaction compares sequences
// and tokens, so processes need not know each other: a token that one process revoked, and a
// report older than one that any process stored, is refused by all.
//
// Most reports repeat the content of the last one. They cost one small value.
//
// Endpoint also makes and revokes tokens. RefusalRecorder records which documents were refused. Source
// stores what the nodes of clusters have free, and answers GET …/monitor.
package agentreports

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/git"
)

// Cluster is a registered cluster.
type Cluster struct {
	Registration string   // id of the cluster's document
	Reports      bool     // it reports by HTTPS
	Direct       bool     // rsync watches it directly; it needs no agent
	Desired      git.Repo // the branch with its desired state; empty if it has none
}

// ClusterSource reads clusters.
type ClusterSource interface {
	// Cluster returns a cluster, or NotFound.
	Cluster(ctx context.Context, name v2.ClusterKey) (Cluster, error)
	// Pairs returns the pairs that a cluster must hold.
	Pairs(ctx context.Context, cluster v2.ClusterKey) ([]intake.Pair, error)
}

// AgentStore stores the agents of clusters: tokens, last sequence, last document.
type AgentStore interface {
	Agent(ctx context.Context, cluster v2.ClusterKey) (agents.Agent, error)
	AgentsOf(ctx context.Context, clusters []v2.ClusterKey) ([]agents.Agent, error)
	UpdateAgents(ctx context.Context, words []agents.Update) (now []agents.Agent, ok bool, err error)
	DeleteAgent(ctx context.Context, a agents.Agent) error
}

// DocumentStore reads agents, their documents and what was refused.
type DocumentStore interface {
	Agent(ctx context.Context, cluster v2.ClusterKey) (agents.Agent, error)
	AgentDocuments(ctx context.Context, clusters []v2.ClusterKey) ([]agents.Document, error)
	SetCapacity(ctx context.Context, cluster v2.ClusterKey, at time.Time, c status.Capacity) error
	RefusalsOf(ctx context.Context, cluster v2.ClusterKey) (agents.Refusals, error)
}

// AgentWatch yields every agent, and then each that changes, until ctx ends.
type AgentWatch interface {
	Agents(ctx context.Context) iter.Seq[agents.Agent]
}

// Options tune the intake. A zero value means the default given here.
type Options struct {
	Queue   int                                // waiting reports; 2048
	Bodies  int64                              // bytes of bodies in memory; 32 MiB
	Refresh time.Duration                      // how often an unchanged document of a living agent is processed again; 1 minute
	Count   func(result string)                // counts each document by one of intake.Results
	Refused func(d intake.Document, err error) // records a refused document of a cluster for operators; it must not block
	Panics  *contain.Panics
	Log     *slog.Logger
	Now     func() time.Time
}

func (o Options) withDefaults() Options {
	o.Queue = cmp.Or(o.Queue, 2048)
	o.Bodies = cmp.Or(o.Bodies, 32<<20)
	o.Refresh = cmp.Or(o.Refresh, time.Minute)
	if o.Count == nil {
		o.Count = func(string) {}
	}
	if o.Refused == nil {
		o.Refused = func(intake.Document, error) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}
