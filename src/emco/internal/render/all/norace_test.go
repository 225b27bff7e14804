//go:build !race

package all_test

// raced reports whether the race detector is built in.
const raced = false
