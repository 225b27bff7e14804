// Package orchestrator owns composite apps and their deployment intent groups: it stores
// their documents, places each app, renders it once per class of equal inputs, and
// publishes revisions in the AppContext.
//
//	POST action ──► Groups: check, queue an operation ──etcd──► Worker: plan, build, publish a revision
//
// An action answers when its operation is queued; a Worker, perhaps in another process,
// executes it. The package never contacts a cluster or a Git repository.
//
// groups.go has the routes, actions.go the actions and queries.go the queries; dryrun.go answers
// dry runs, worker.go executes operations, and sweep.go removes content without references. Package
// plan reads the documents, and package revision renders and publishes.
package orchestrator
