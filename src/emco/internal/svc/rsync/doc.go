// Package rsync brings clusters to the state that the AppContext asks for. It is
// level-triggered: it compares what each pair (one app of one deployment on one
// cluster) shall hold with what it is known to hold, hands the difference to a
// sink, and writes down what the sink has proof of. A crash at any point is
// repaired by comparing again.
//
//	head changes ──► intend ──► pairs (written first) ──► lanes ──► sinks
//	                                    ▲                            │
//	                                    └───────── outcome ──────────┘
//
// A pair goes to what it shall hold in steps, of which package steps says what they are.
// A step is delivered, and then the next one begins when a report says what it needs.
// Before the first one a pair may have to wait at a gate for other pairs of its
// deployment. Both are decided by what is stored, so they are decided alike after a crash.
//
// A lane carries the changes that go out together: all targets of one Git
// repository and branch, or all of one directly reached cluster. Lanes do not wait
// for each other, so a cluster that cannot be reached slows nobody else.
//
// Where a cluster's platform has to be told by an interface of its own where to look (see
// syncer.Bootstrapper), that happens between the commit and the outcome, for each cluster
// by itself: a platform that is slow or cannot be reached holds up no commit.
//
// Several processes share the work by shards: each has a dispatcher of its own for each
// of its shards, which knows the pairs of that shard and no others. A lane is in one
// shard, so it has one worker, wherever that is.
//
// rsync reads cluster documents and their sync objects, and the AppContext. It
// writes pairs and reports. It never renders, places, or changes a document.
//
// Where to look:
//
//	whose work it is      service, home, owners, guardian, loader
//	what is asked for     feed, desk, contents, ways, memory; narrow, restless: what changed
//	the shard's state     dispatcher, visits, ledger, intent, progress, proof, doubt, handover
//	what waits for what   gate, gates, hearing, abroad
//	when it is tried      lane, alarm, late, retry, brakes
//	where it goes         destination, identity, target, tenancy
//	by Git                gitlane, message, branches, followed, tenants, views, retire, publish, platforms
//	directly              kubelane, conn
//	what came of it       outcomes, carried, reporter, source, diary
//	others' commits       foreign, verdict; rewritten history: adopt, restore, renewal
//	clusters that move    moves, relocate, carry
package rsync
