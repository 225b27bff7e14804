// Package gitlabtest is a GitLab for tests: the part of its REST API that package gitlab
// and the keepers of a repository use, and Git over HTTP, on one address, over real bare
// repositories. It refuses what GitLab refuses, in its words:
//
//	tokens       of users, groups and projects, with scopes, a role and an end
//	branches     protected ones refuse pushes by a hook, and merges, below a role
//	requests     one open merge request from a branch into another; merging is real
//	statuses     a state cannot be set that a name has already
//	limits       calls in a period, reported in headers
//
// Faults can be ordered. It needs the git program, 2.38 or later, with its http-backend.
package gitlabtest
