//go:build !failpoints

package app

// failpoints returns nothing: a program that is built as usual cannot be broken from
// outside.
func failpoints() ([]Option, error) { return nil, nil }
