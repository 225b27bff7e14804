//go:build !race

package rsync

// raced says that the race detector is built in.
const raced = false
