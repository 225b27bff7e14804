// Package orchestrator owns projects, their policies, composite apps and their deployment intent groups: it stores
// their documents, places each app, renders it once per class of equal inputs, and
// publishes revisions in the AppContext. It also stores the registrations of controllers.
//
//	POST action ──► Groups: check, queue an operation ──etcd──► Worker: plan, build, publish a revision
//
// An action answers when its operation is queued; a Worker, perhaps in another process,
// executes it. The package never contacts a cluster or a Git repository.
//
// resources.go has the documents, groups.go the routes of groups, actions.go the actions of callers,
// act.go those that events ask for, and hooks.go the hooks around actions. prepare.go checks what an
// action needs, plandigest.go binds it to its plan, and foureyes.go holds it to a review by another caller. dryrun.go answers dry runs, and repeats the checks of prepare.go.
// queries.go and placement.go answer queries, worker.go executes operations, and sweep.go removes content without references.
// Package plan reads the documents, package quota holds actions to the quotas of the project, and package revision renders and publishes.
package orchestrator
