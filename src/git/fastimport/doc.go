// Package fastimport is a Git host that has the git program do the work: for servers that
// only this program reaches, by an ssh configuration or a proxy that this one does not know.
// Package plain does the same without any program, and faster.
//
//	Head     git ls-remote
//	Tree     git fetch (that commit alone, without files, if it is not known), git ls-tree
//	Blob     git fetch (that file), git cat-file
//	Commit   1 git cat-file: the trees along the edited paths, as far as they are needed
//	         2 package tree says what the edits come to; if that is nothing, this is all
//	         3 git fast-import is told what changes, and must come to the same tree
//	         4 git hash-object: the commit
//	         5 the guard, and git push with the old commit as a condition
//	Views    git ls-remote, and git fetch of commits that are not known; one git fast-import and
//	         one git hash-object for all that have to move, and one git push --atomic
//
// What is known of a repository is in a bare one in a folder of the host: commits without
// their past, trees, and the files that were written. It holds no address and no credential,
// is thrown away when it has grown, and with the host.
//
// Every run of the program has a deadline, a group of processes of its own that ends with it,
// and nothing of this program's environment but PATH and the proxies. Runs are bounded in
// number. A token is given in the environment of the one run that needs it, for the one
// server; a key of ssh never leaves this process, which answers as the agent instead. Neither
// is ever on a command line or in a file. What an HTTP server answers is read from the trace that
// the program writes to a pipe of this process.
package fastimport
