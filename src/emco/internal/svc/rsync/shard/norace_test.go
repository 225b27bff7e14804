//go:build !race

package shard

// raced reports whether the race detector is built in.
const raced = false
