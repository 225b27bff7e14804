//go:build !race

package gitwriter_test

// raced reports whether the race detector is built in.
const raced = false
