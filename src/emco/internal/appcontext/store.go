// Package appcontext is the state that services share: what each deployment must look
// like on each cluster, and how far each cluster is. Content is stored once, by digest;
// clusters refer to it. The state lives in etcd, embedded or external.
//
//	blob/<sha256>/<chunk>               compressed content, sealed, in chunks of at most 256 KiB
//	blob/<sha256>/unused                a sweep found that nothing refers to the content
//	head/<uid>                          Head; the only contended key of a deployment
//	dep/<uid>/act/<seq>                 HistoryEntry; a sweep leaves the newest KeptHistory of a deployment
//	dep/<uid>/rev/<n>                   Revision, written once, together with the head
//	dep/<uid>/place/<n>/<try>/<k>       placements of up to 4,096 clusters, written once; the list of clusters is content
//	dep/<uid>/commit/<n>                Git commits that carried revision n, by rsync
//	commit/<name>/<uid>/<n>             the same by the name of a commit, to find it; written with the one before
//	event/<uid>/<time>-<random>[-user]  Event; the newest few hundred of a deployment, and of its users
//	hook/<uid>/<kind>.<intent>          WorkflowRun: the last run of a workflow
//	use/<uid>                           the last use of a head by another head's change
//	op/<uid>/<id>                       Operation that waits for the orchestrator, and for no workflow hook
//	pair/<cluster>/<uid>/<app>          Pair, by rsync: one that stands alone
//	pairroster/<shard>/<part>           numbers of clusters, by rsync, see package pairstore
//	pairtable/<uid>/<app>/<shard>       pairs that stand alike, by rsync
//	report/<cluster>/<uid>/<app>        Report, by rsync: one that equals no other
//	reporttable/<uid>/<app>/<shard>     equal reports, by rsync
//	heard/<cluster>                     Agent: its last sign of life, and its tokens
//	said/<cluster>/<part>               the last document of an agent, received by HTTPS or read from Git
//	denied/<cluster>                    what was refused of its agent
//	capacity/<cluster>                  what its nodes have free, by its agent
//	announced/push                      the last announced push
//	git/<hash>                          Branch, by rsync and by operators
//	move/<cluster>                      Relocation of a cluster in Git, by clm and by rsync
//	identity                            the id of the document store that all this belongs to
//	generation                          Generations: the documents hold the same, see package generation
//	progress                            etcd's revision, stored again after a million: a jump shows a restore
//	audit/…                             the audit log, see package auditlog
//	doc/…, content/…                    documents and packages, if they are in etcd: see package store/etcd
//	spend/<sha256>                      what is left of the limits of a Git credential, see package spend
//	spendsecret                         the sealed value that makes the names of spend/
//	member/level                        the level of stored data in force, see package shards
//	clock/<holder>                      the time of a process, on its lease, see package shards
//	member/…, own/…                     processes and the shards that they own, see package shards
//
// Heads and operations have key spaces of their own, so that a list or a watch of them
// carries nothing else. A revision names the try that wrote its placements; a crash may
// leave other tries, which are never read. No value is above 256 KiB, no transaction above
// 128 operations or 1 MiB.
//
// Each kind of record has a type with its operations: HeadStore, RevisionStore,
// WorkflowStore and EventStore here, and those of packages agents, blobstore, gitstate and pairstore.
// Store joins them. Sweep removes what nothing needs, CheckContent finds content that is needed and
// missing or damaged, and NoteProgress notices that etcd was restored from a backup.
package appcontext

import (
	"context"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/blobstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/clusterhistory"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/bytelru"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// Level is the level of stored data that this program reads and writes. It rises with a change after which a
// stored value, of the AppContext or of the documents, may hold what a program of the level before loses or
// misreads. Such a value must not be written before that level is in force, see shards.Level.
//
//	0  programs that do not announce a level
//	1  the same values
//	2  apps with waves by label and pauses, which older programs would skip
const Level = 2

// Store is the whole shared state. It is safe for use by many goroutines, starts none,
// and does not own the etcd client. Its errors have the kinds that package etcdkv
// describes; Conflict also means that another writer was faster.
type Store struct {
	*HeadStore
	*RevisionStore
	*ContentStore
	*PairStore
	*ReportStore
	*EventStore
	*AgentStore
	*ClusterHistoryStore
	*WorkflowStore
	*BranchStore
	*RelocationStore
	*PushStore

	kv *etcdkv.Client
	o  options
}

// The parts of Store from other packages.
type (
	AgentStore          = agents.Store
	BranchStore         = gitstate.BranchStore
	ClusterHistoryStore = clusterhistory.Store
	ContentStore        = blobstore.Store
	PushStore           = gitstate.PushStore
	RelocationStore     = gitstate.RelocationStore
)

// options is what Options change.
type options struct {
	kv     etcdkv.Options
	now    func() time.Time
	grace  time.Duration // of replaced revisions, see WithGrace
	tries  time.Duration // grace of interrupted publishes
	caches caches        // shared by all fenced views
	sealer *seal.Sealer  // of content; nil: it is not sealed
}

// Option changes how a Store works.
type Option func(*options)

// caches keep what was used last.
type caches struct {
	content    *blobstore.Cache
	placements *bytelru.Cache[string, []Placement]    // by the prefix of their keys
	revisions  *bytelru.Cache[string, storedRevision] // by their keys

	clusterLists *clusterhistory.Lists
}

func newCaches(bytes int) caches {
	return caches{
		content: blobstore.NewCache(bytes * 3 / 4), placements: bytelru.New[string, []Placement](bytes * 7 / 32),
		revisions: bytelru.New[string, storedRevision](bytes / 32), clusterLists: clusterhistory.NewLists(4 << 20),
	}
}

// WithOnOp has f called after each request to etcd with its kind ("get", "list", "txn",
// "watch", "lease") and the bytes of its keys and values. f must be quick and safe for use
// by many goroutines.
func WithOnOp(f func(kind string, bytes int)) Option {
	return func(o *options) { o.kv.OnRequest = f }
}

// WithOnFenced has f called for each write that was refused because its owner had lost the
// shard. f must be quick and safe for use by many goroutines.
func WithOnFenced(f func()) Option { return func(o *options) { o.kv.OnFenced = f } }

// WithCache bounds the memory for content and placements that were read or written, in
// bytes. The default is 64 MiB; 0 switches the caches off.
func WithCache(bytes int) Option { return func(o *options) { o.caches = newCaches(bytes) } }

// WithLog logs interrupted watches and the like to l. The default logs nothing.
func WithLog(l *slog.Logger) Option { return func(o *options) { o.kv.Log = l } }

// WithSealer seals content. The sealer must have keys before content is read or written.
func WithSealer(s *seal.Sealer) Option { return func(o *options) { o.sealer = s } }

// WithGrace sets how long Sweep keeps a revision that was replaced, and the placements of
// an interrupted publish. The defaults are five minutes and one hour. They must be longer than a
// reader needs from reading a head to writing a pair, and longer than a publish.
func WithGrace(d time.Duration) Option { return func(o *options) { o.grace, o.tries = d, d } }

// WithClock replaces the clock of Sweep and Publish.
func WithClock(now func() time.Time) Option { return func(o *options) { o.now = now } }

// New returns the state that lives in etcd below prefix. The client stays the caller's to
// close, after all users of the Store have ended.
func New(c *clientv3.Client, prefix string, opts ...Option) *Store {
	o := options{now: time.Now, grace: 5 * time.Minute, tries: time.Hour, caches: newCaches(64 << 20)}
	for _, change := range opts {
		change(&o)
	}
	return newView(etcdkv.New(c, prefix, o.kv), o)
}

func newView(kv *etcdkv.Client, o options) *Store {
	events := &EventStore{kv: kv, now: o.now}
	heads := &HeadStore{kv: kv, events: events}
	agents, pairs, content := agents.New(kv), pairstore.New(kv), blobstore.New(kv, o.caches.content, o.sealer)
	return &Store{
		HeadStore:           heads,
		RevisionStore:       &RevisionStore{kv: kv, heads: heads, lists: content, now: o.now, caches: o.caches},
		ContentStore:        content,
		PairStore:           pairs,
		ReportStore:         pairstore.NewReports(pairs, agents),
		EventStore:          events,
		AgentStore:          agents,
		ClusterHistoryStore: clusterhistory.New(kv, o.caches.clusterLists),
		WorkflowStore:       &WorkflowStore{kv: kv},
		BranchStore:         gitstate.NewBranchStore(kv),
		RelocationStore:     gitstate.NewRelocationStore(kv, o.now),
		PushStore:           gitstate.NewPushStore(kv),
		kv:                  kv,
		o:                   o,
	}
}

// Fence proves an ownership, see etcdkv.Fence.
type Fence = etcdkv.Fence

// Errors that callers distinguish.
var (
	ErrFenced = etcdkv.ErrFenced
	ErrFull   = etcdkv.ErrFull
)

// Fenced returns a view of the same store whose writes are refused with ErrFenced once own
// is lost. The zero Fence changes nothing.
func (s *Store) Fenced(own Fence) *Store {
	if own.IsZero() {
		return s
	}
	return newView(s.kv.Fenced(own), s.o)
}

// Holds asks etcd whether an ownership still stands, for writes elsewhere; ErrFenced if it
// does not. The zero Fence always holds.
func (s *Store) Holds(ctx context.Context, f Fence) error { return s.kv.Holds(ctx, f) }

// Barrier returns once no unanswered write by own can still be made: what is read
// afterwards changes only by later writes. ErrFenced if own is lost; the zero Fence
// promises nothing.
func (s *Store) Barrier(ctx context.Context, own Fence) error { return s.kv.Barrier(ctx, own) }

// Ready returns why the store cannot be used now: etcd does not answer, or has raised an
// alarm.
func (s *Store) Ready(ctx context.Context) error { return s.kv.Ready(ctx) }

// Own waits until a shard is ours, see shards.Own.
func (s *Store) Own(ctx context.Context, shard, holder string, ttl time.Duration) (*shards.Ownership, error) {
	return shards.Own(ctx, s.kv, shard, holder, ttl)
}

// FindStale returns keys of processes that have gone, see shards.FindStale.
func (s *Store) FindStale(ctx context.Context) ([]shards.Stale, error) {
	return shards.FindStale(ctx, s.kv)
}

// ShardOwners returns who owns the shards of a group now, see shards.Owners.
func (s *Store) ShardOwners(ctx context.Context, g shards.Group) (map[int]string, error) {
	return shards.Owners(ctx, s.kv, g)
}

// ShardRunner returns this process' part in a group that shares work, see shards.Runner.
func (s *Store) ShardRunner(g shards.Group, m shards.Member, work shards.Work) *shards.Runner {
	return shards.NewRunner(s.kv, g, m, work)
}
