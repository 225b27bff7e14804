//go:build !race

package isolated_test

// raced says that the race detector is built in.
const raced = false
