// Package gittest serves bare repositories for tests and benchmarks of Git hosts: with the real git
// program, over HTTP and SSH, with switches for faults. Check is the contract that every git.Host
// must keep. CheckBranchNames, CheckReset and CheckDerived are those parts of the contract that need a
// repository of their own, or a host with more methods. Proposals are the pull requests of a repository.
//
// It needs the git program on the PATH, with its http-backend.
package gittest
