// Package gitlabtest is a GitLab for tests. One address serves Git over HTTP, and the part of the
// REST API that package gitlab and the maintainers of a repository use, on real bare repositories.
// It refuses what GitLab refuses, with GitLab's texts:
//
//	tokens       of users, groups and projects, with scopes, a role and an expiry
//	branches     protected ones refuse pushes (by a hook) and merges below a role
//	requests     one open merge request from a branch into another; merges are real
//	statuses     a name cannot get the state that it has
//	limits       calls in a period, reported in headers
//
// Tests can order faults. It needs the git program, 2.38 or later, with its http-backend.
package gitlabtest
