// Package githttp serves bare repositories of this machine over HTTP with the git program, for demonstrations
// and tests. It authenticates nobody: the caller decides who may do what.
//
// It needs the git program on the PATH.
package githttp
