package session

import "fmt"

// UsageError is an error in how emcoctl was called.
type UsageError struct{ error }

func (u UsageError) Unwrap() error { return u.error }

// Usage marks an error as one in how emcoctl was called.
func Usage(err error) error { return UsageError{err} }

// Usagef returns an error in how emcoctl was called.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }
