// Package gittest has what tests and demos of Git hosts need: bare repositories that
// are served by the real git program over HTTP and SSH, with switches for faults,
// and Check, the contract that every git.Host must keep.
//
// It needs the git program on the PATH, with its http-backend.
package gittest
