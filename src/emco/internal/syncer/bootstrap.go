package syncer

import "context"

// Bootstrapper is what a backend also implements when a cluster's platform has to be told
// by an interface of its own where to look; files alone do not bring it there. It is
// called after the files were committed, for one target by one caller at a time. Errors
// are safe to show to users; Throttled ones say when to come back.
type Bootstrapper interface {
	// Bootstrap has the platform reconcile the directories of the named apps of the
	// target and no others. Doing it again changes nothing. It may return before the
	// platform is done, with an error that says so.
	Bootstrap(ctx context.Context, t Target, apps []string) error
	// Release has the platform forget the target, and so take away what it has applied.
	// A target that the platform does not know is fine.
	Release(ctx context.Context, t Target) error
}

// Bootstrapping returns the Bootstrapper that b is, or guards (see Owned); nil if
// there is none.
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
