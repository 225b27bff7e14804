// Package plain is a Git host over Git's own protocol: http, https, ssh and, where
// it is allowed, bare repositories on the same machine. It works with any server.
//
// It keeps no clone and no work tree. It caches tree objects (names and
// hashes, no file contents) of the last commits in memory. The cost of a write depends on the
// changed paths:
//
//	Head     GET info/refs of upload-pack              one advertisement
//	Tree     upload-pack: want C, deepen 1,            one pack of trees; with
//	         filter blob:none, have what is known      "have" only those that differ
//	Commit   1 blobs and trees along the edited paths are hashed, bottom-up
//	         2 receive-pack advertises where the branch is; if that is not
//	           the parent, the race is lost before a byte is sent; left out
//	           over HTTP if Head has just read that it is the parent
//	         3 "old new refs/heads/B", flush, pack of the new objects, streamed
//	         4 the server unpacks into quarantine, moves the branch only if it is
//	           still at old, and reports "unpack ok", "ok B" or "ng B why"
//
// A server without filters sends blobs too; they are dropped as they stream by.
// It uses protocol version 0, which every server supports. An advertisement lists all branches. Over HTTP
// only what needs that list reads one: fetches and pushes use the capabilities that an earlier one named.
//
// The packages below internal, from the bottom up:
//
//	pack       the stream of objects: compression, deltas, reading with limits
//	dial       starts a service over http, ssh, the ssh program, or on this machine
//	wire       one conversation: advertisement, then a request for a pack, or a push
//	treecache  trees of the last commits in memory
//	fetch      what is read: trees, files, files of branches, commits
//
// This package joins them: host.go makes the Host, read.go has the methods that read, write.go those that move one
// branch, draft.go the edits on their way to a push, derived.go commits with derived branches.
package plain
