//go:build race

package helm_test

// raced reports whether the race detector is built in. It maps far more memory than a
// child may have, so children are not limited then.
const raced = true
