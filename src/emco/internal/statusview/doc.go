// Package statusview answers status queries: the state of each app on each cluster, from
// what rsync has proof of and what clusters report.
//
//	mirror ──head, pairs, reports──► Snapshot ──Query──► Answer ──► JSON, stream, gRPC
//	etcd ────history, revision, placements──┘
//
// An answer never claims what is not known. Applied needs proof. Ready is reported by the
// cluster, for exactly the desired content, and a report that is too old does not count.
//
// reader.go joins the parts; history.go, revisions.go and outdated.go read the rest for it, or remember it. query.go has Query,
// snapshot.go Snapshot with rsync's view, outcome.go that of single objects, reading.go the clusters' view, conditions.go the
// conditions, answer.go Answer. view.go makes an Answer of a Snapshot, encode.go its JSON, follow.go the streams. counted.go counts
// places for answers without them, waiting.go those that rsync has not taken up, for views.
package statusview
