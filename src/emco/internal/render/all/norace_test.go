//go:build !race

package all_test

// raced says that the race detector is built in.
const raced = false
