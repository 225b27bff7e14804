//go:build !race

package gitwriter_test

// raced says that the race detector is built in.
const raced = false
