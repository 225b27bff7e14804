package syncer

import "context"

// Bootstrapper is implemented by backends of clusters whose platform has an API of its own
// that points reconcilers at files. It is called after the files are committed, for one
// target by one caller at a time. Errors are safe to show to users; Throttled ones carry
// the time until a retry.
type Bootstrapper interface {
	// Bootstrap configures the platform to reconcile the directories of exactly the named
	// apps of the target. It is idempotent. It may return before the platform has
	// finished, with an error.
	Bootstrap(ctx context.Context, t Target, apps []string) error
	// Release removes the target from the platform, which then prunes its objects.
	// An unknown target is no error.
	Release(ctx context.Context, t Target) error
}

// Bootstrapping returns b, or the backend that b guards (see Owned), as a Bootstrapper; nil
// if it is none.
func Bootstrapping(b Backend) Bootstrapper {
	switch g := b.(type) {
	case guardedBackend:
		b = g.Backend
	case guardedPointerBackend:
		b = g.Backend
	}
	inner, _ := b.(Bootstrapper)
	return inner
}
