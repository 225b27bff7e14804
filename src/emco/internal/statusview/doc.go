// Package statusview answers status queries: the state of each app on each cluster, from
// what rsync has proof of and what clusters report.
//
//	mirror ──head, pairs, reports──► Snapshot ──Query──► Answer ──► JSON, stream, gRPC
//	etcd ────history, revision, placements──┘
//
// An answer never claims what is not known. Applied needs proof. Ready is reported by the
// cluster, for exactly the desired content, and a report that is too old does not count.
//
// reader.go joins the parts. query.go has Query, snapshot.go Snapshot with rsync's view, reading.go
// the clusters' view, conditions.go the conditions, answer.go Answer. view.go makes an Answer of a
// Snapshot, encode.go its JSON, follow.go the streams.
package statusview
