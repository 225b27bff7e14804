//go:build !race

package isolated_test

// raced reports whether the race detector is built in.
const raced = false
