package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/internal/poll"
)

var errLocked = errors.New("another build holds the lock")

// lock waits for the one build lock of the cache. The kernel frees the lock of a process that ends
// without unlocking.
func (b *Builder) lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(b.cache, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := b.await(ctx, name, f); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

func (b *Builder) await(ctx context.Context, name string, f *os.File) error {
	err := tryLock(f)
	if !errors.Is(err, errLocked) {
		return err
	}
	b.say(name, "waiting for another build")
	var broken error
	err = poll.Until(ctx, 200*time.Millisecond, func(context.Context) error {
		err := tryLock(f)
		if errors.Is(err, errLocked) {
			return err
		}
		broken = err
		return nil
	})
	return errors.Join(err, broken)
}

func tryLock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}
