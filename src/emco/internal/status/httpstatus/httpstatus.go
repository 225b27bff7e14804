// Package httpstatus takes in what the agents of clusters report by HTTPS. Any process may
// take a report. It is answered when it is in etcd, on disk; reports that come together are
// written together.
//
//	agent ──POST──► Endpoint: token, size, form ──► Desk ──transaction──► etcd
//	                                                 who, sequence          │
//	   rsync ◄── Source: what documents say of each pair ◄──watch───────────┘
//
// A cluster's agent has a token of its own, which can do nothing else. Sequences and tokens
// are compared in the transaction that writes, so that processes need not know of each
// other: what was revoked, or is older, by the word of any of them is refused by all.
//
// Most reports say that all is as it was. They cost one small value.
package httpstatus

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/git"
)

// Cluster is a cluster that is registered.
type Cluster struct {
	Identity string   // of its registration
	Reports  bool     // by HTTPS
	Direct   bool     // it is watched, and needs no agent
	Desired  git.Repo // where its desired state is, if that is a repository
}

// ClusterSource is what is asked about clusters.
type ClusterSource interface {
	// Cluster returns a cluster, "<provider>+<cluster>"; NotFound if none is registered.
	Cluster(ctx context.Context, name string) (Cluster, error)
	// Pairs returns what a cluster is to hold.
	Pairs(ctx context.Context, cluster string) ([]intake.Pair, error)
}

// AgentStore is where it is written down what agents said.
type AgentStore interface {
	Agent(ctx context.Context, cluster string) (appcontext.Agent, error)
	AgentsOf(ctx context.Context, clusters []string) ([]appcontext.Agent, error)
	Hear(ctx context.Context, words []appcontext.Words) (now []appcontext.Agent, ok bool, err error)
	ForgetAgent(ctx context.Context, a appcontext.Agent) error
}

// DocumentStore is where documents of agents are read.
type DocumentStore interface {
	Sayings(ctx context.Context, clusters []string) ([]appcontext.Saying, error)
}

// AgentWatch tells which agents have said something, at first of all of them, until ctx ends.
type AgentWatch interface {
	Agents(ctx context.Context) iter.Seq[appcontext.Agent]
}

// Options tune what is taken. Zero values mean the defaults given here.
type Options struct {
	Queue   int                   // reports that may wait to be written; 2048
	Bodies  int64                 // bytes of reports in memory at a time; 32 MiB
	Refresh time.Duration         // a document is looked at again after so long, if its agent lives; 1 minute
	Count   func(result string)   // told of each document: one of intake.Results
	Agents  *intake.AgentStatuses // of agents
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
	if o.Agents == nil {
		o.Agents = intake.NewAgentStatuses()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}
