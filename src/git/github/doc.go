// Package github is a Git host over GitHub's REST interface, for where Git's own port
// cannot be reached or pull requests are wanted. It works with github.com and with GitHub
// Enterprise Server.
//
//	Head     GET ref                                      1 call
//	Tree     GET commit, GET tree (recursive)             2 calls; none for what is known
//	Commit   1 the trees along the edited paths are read, as far as they are not known
//	         2 the new trees are built here, bottom-up; if the root is the old one, that is all
//	         3 POST tree: content that many places share, once
//	         4 POST tree on the old root: one entry for each place that changes
//	         5 POST commit, GET ref, guard, PATCH ref without force
//
// Steps 3 to 5 are five calls, or four where nothing is shared, however many clusters change.
// A request that would be too large is cut, and the next one goes on where it ended. The
// server must come to the same root as step 2, or nothing is moved.
//
// What is known of a repository are tree objects by their names, in memory, bounded, and
// checked against their names when they come in. After a commit of ours nothing has to be
// read; after somebody else's only what they changed along our paths.
package github
