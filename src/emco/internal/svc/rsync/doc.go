// Package rsync brings clusters to the state that the AppContext asks for. It is
// level-triggered: it compares the desired content of each pair (one app of one deployment on
// one cluster) with the known content, delivers the difference, and records what the
// delivery proves. A crash at any point is repaired by comparing again.
//
// Below is one change from a head to the report on it, with the packages on the way and, in
// brackets, the etcd keys between them:
//
//	[head/…] ─ watch ─► shard.HeadFeed                    once per process
//	                      │
//	                      ▼
//	             shard (reconcile.go)                     what of this head is new?
//	                      │ SetDesired
//	                      ▼
//	             pairs ── pair: which pairs change        all pairs of the shard
//	               │   └─ gate: which may start now
//	               └───► [pairtable/…], [pair/…]          written before any work
//	                      │ Requeue
//	                      ▼
//	             queue ─► shard (deliver.go)              one worker per branch or direct cluster
//	                        │ route: where is the cluster?
//	                        ├─► deliver/gitwriter, then deliver/platform
//	                        │        └─► branchguard.Records ─► [git/…]   the last commit
//	                        └─► deliver/kubeapplier
//	                      │ Record
//	                      ▼
//	             pairs ──► [pairtable/…], [pair/…]        proof: a commit, or applied objects
//
//	 agents ─► Source ─► Service.deliverReport ─┐         to all shards
//	 watches of direct clusters ────────────────┤
//	                                            ▼
//	             reportbatch ─► pairs ──► [reporttable/…], [report/…]   is it ready? what may go on?
//	                              └─► Requeue
//
// A pair gets to another bundle in steps, see package steps. The next step starts when a
// report shows what it needs. Before the first one, a pair may wait at a gate for other
// pairs of its deployment. Both follow from what is stored, so they are the same after a
// crash.
//
// Queues do not wait for each other: an unreachable cluster or repository delays only its
// own queue. A platform that must learn where to look (syncer.Bootstrapper) is called
// after the commit, and delays no other cluster.
//
// Several processes share the work by shards. A branch of a repository, or a directly
// reached cluster, is in one shard, so it has one writer. Every write of a shard is fenced
// by its ownership. The Service runs one shard.Shard for each shard that its process owns.
//
// rsync reads cluster documents, their sync objects, and the AppContext. It writes pairs,
// reports, events, branch records, the commits of revisions and the progress of moves; after a
// restore it marks lost revision numbers in heads. It never renders, places, or changes a
// document.
//
// The packages, from the bottom up:
//
//	pair         pure: the states of a pair, and how they change
//	gate         which pairs may start; writes nothing, may read reports
//	content      bundles, their objects, and the steps between them, cached
//	queue        serial workers by key, timers, cancellations
//	events       what happens, for people
//	pairs        the pairs of a shard: etcd first, then memory
//	reportbatch  reports, gathered into batches
//	watchcache   the newest states of things that are watched in etcd
//	deliver/…    plan and commit together; apply and watch; register with platforms
//	branchguard  edits by others, rewritten history, branches of clusters
//	clustermove  moves a cluster with what it holds
//	shard        follows heads and requeues what differs, for one shard
//	api          what only rsync can answer: kubeconfigs of users, decisions of operators about branches
//
// docs/architecture.md lists the goroutines, their data, and their locks.
package rsync
