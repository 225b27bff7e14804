//go:build race

package gitwriter_test

// raced says that the race detector is built in. Everything takes ten times as long then,
// and what it looks for is in small fleets too.
const raced = true
