//go:build !race

package shard

// raced says that the race detector is built in.
const raced = false
