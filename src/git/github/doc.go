// Package github is a git.Host over GitHub's REST API, for branches that change by pull requests only, and for sites
// that reach the API alone. It works with github.com and with GitHub Enterprise Server.
//
//	Head     GET ref                                      1 call
//	Tree     GET commit, GET tree (recursive)             2 calls; none if cached
//	Commit   1 the trees along the edited paths are read, unless they are cached
//	         2 the new trees are built here, bottom-up; nothing is sent if the root stays the same
//	         3 POST tree: content that many places share, once
//	         4 POST tree on the old root: one entry for each place that changes
//	         5 POST commit, GET ref, guard, PATCH ref without force
//
// Steps 3 to 5 mostly are five calls, or four where nothing is shared, however many clusters change. Each file that is
// binary or larger than 256 KiB is one more, and so is each further level of shared content. A request that would be too
// large is split. The server must compute the same root as step 2, or
// nothing is moved.
//
// The cache of a repository holds tree objects by their names, in memory, bounded, and checked
// against their names on arrival. After a commit of ours nothing is read; after one of others only
// what they changed along our paths.
//
// Package api below calls the server, with budgets, tokens and limits; package treeplan decides, without
// calls, which requests make a commit's trees.
package github
