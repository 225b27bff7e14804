//go:build !race

package git_test

// raced says that the race detector is built in.
const raced = false
