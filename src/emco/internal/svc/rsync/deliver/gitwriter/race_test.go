//go:build race

package gitwriter_test

// raced reports whether the race detector is built in. Everything takes ten times as long then,
// and what it looks for is in small fleets too.
const raced = true
