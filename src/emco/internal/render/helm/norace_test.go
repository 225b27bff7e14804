//go:build !race

package helm_test

// raced reports whether the race detector is built in.
const raced = false
