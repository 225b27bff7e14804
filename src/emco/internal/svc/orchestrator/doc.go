// Package orchestrator owns composite applications and their deployment intent
// groups: it keeps their documents, decides where each app goes, renders it once per
// class of equal inputs, and publishes revisions in the AppContext.
//
// Actions answer as soon as the operation is recorded; the work is done by Worker,
// which may run in another process. It never touches a cluster or a Git repository.
package orchestrator
