//go:build race

package shard

// raced reports whether the race detector is built in. Everything takes ten times as long then;
// races also occur in small fleets.
const raced = true
