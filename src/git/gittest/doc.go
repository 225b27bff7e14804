// Package gittest serves bare repositories for tests and benchmarks of Git hosts: with the real git
// program, over HTTP and SSH, with switches for faults. Check is the contract that every git.Host
// must keep.
//
// It needs the git program on the PATH, with its http-backend.
package gittest
