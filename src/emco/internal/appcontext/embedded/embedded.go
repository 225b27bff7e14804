// Package embedded runs an etcd inside the process, for installations of one process
// and for tests.
//
// It listens nowhere: neither clients nor peers can reach it from outside of the
// process, so its data needs no password and no certificates. Its only client is the
// one it hands out, which calls the server's functions directly.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// A killed process holds its locks until its last forked child has started its own program.
// A start waits for that.
const (
	lockPatience = time.Second           // the longest wait
	lockPause    = 10 * time.Millisecond // between attempts
)

// DefaultQuota is the size of the database above which only reads are served, in bytes.
const DefaultQuota = 8 << 30

// Options says where and how an etcd runs.
type Options struct {
	Dir     string       // holds the data; made if absent, and closed to other users
	Quota   int64        // bytes of the database; 0 is DefaultQuota
	Log     *slog.Logger // gets etcd's errors; nil is none
	NoFsync bool         // for tests only: writes may be lost when the machine stops
}

// Server is a running etcd.
type Server struct {
	etcd   *embed.Etcd
	client *clientv3.Client
	lock   *fileutil.LockedFile
	once   sync.Once
}

// Start returns once the server answers. History is compacted after ten minutes.
//
// Conflict if another process uses the directory and does not end within a second.
// Internal if the data cannot be read: the process should end then, because the
// directory stays locked until it does. Unavailable if ctx ends first.
func Start(ctx context.Context, o Options) (*Server, error) {
	if err := ctx.Err(); err != nil {
		return nil, errs.E(errs.Unavailable, "start", "etcd in "+o.Dir, err)
	}
	lock, err := lockDir(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	c := config(o)
	if err := checkDB(filepath.Join(c.Dir, "member", "snap", "db")); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	etcd, err := start(c)
	if err != nil { // etcd may have left files open: keep the lock
		return nil, errs.E(errs.Internal, "start", "etcd in "+o.Dir, err)
	}
	s := &Server{etcd: etcd, client: v3client.New(etcd.Server), lock: lock}
	select {
	case <-etcd.Server.ReadyNotify():
		return s, nil
	case <-etcd.Server.StopNotify():
		err = errs.E(errs.Internal, "start", "etcd in "+o.Dir, errors.New("it stopped at once"))
	case <-ctx.Done():
		err = errs.E(errs.Unavailable, "start", "etcd in "+o.Dir, ctx.Err())
	}
	return nil, errors.Join(err, s.Close())
}

// lockDir creates dir and locks it. etcd has a lock of its own, but waits for it without
// end.
func lockDir(ctx context.Context, dir string) (*fileutil.LockedFile, error) {
	if dir == "" {
		return nil, errs.E(errs.Invalid, "start", "etcd", errors.New("a directory is needed"))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, errs.E(errs.Internal, "start", "etcd", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, errs.E(errs.Internal, "start", "etcd", err)
	}
	lock, err := fileutil.TryLockFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	for end := time.Now().Add(lockPatience); errors.Is(err, fileutil.ErrLocked) && ctx.Err() == nil && time.Now().Before(end); {
		select {
		case <-ctx.Done():
		case <-time.After(lockPause):
		}
		lock, err = fileutil.TryLockFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	}
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, inUse(dir)
	}
	if err != nil {
		return nil, errs.E(errs.Internal, "start", "etcd in "+dir, err)
	}
	return lock, nil
}

func inUse(path string) error {
	return errs.E(errs.Conflict, "start", "etcd in "+path, errors.New("another process uses it; stop that one, or choose another directory"))
}

// checkDB finds processes that use the database without our lock, such as etcd's own tools,
// and files that are no database.
func checkDB(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockPatience})
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return inUse(path)
	}
	if err != nil {
		return errs.E(errs.Internal, "read", path, err)
	}
	return db.Close()
}

func config(o Options) *embed.Config {
	c := embed.NewConfig()
	c.Name = "emco"
	c.Dir = filepath.Join(o.Dir, "data")
	c.ListenClientUrls, c.ListenPeerUrls = nil, nil
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.QuotaBackendBytes = o.Quota
	if o.Quota == 0 {
		c.QuotaBackendBytes = DefaultQuota
	}
	c.AutoCompactionMode, c.AutoCompactionRetention = embed.CompactorModePeriodic, "10m"
	c.BootstrapDefragThresholdMegabytes = 256 // free disk space at start, if that is worth it
	c.TickMs, c.ElectionMs = 20, 200          // it elects itself when it starts; the default takes up to a second
	c.UnsafeNoFsync = o.NoFsync
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger(o.Log))
	return c
}

// start turns panics of etcd, when it cannot read the data, into errors.
func start(c *embed.Config) (e *embed.Etcd, err error) {
	defer func() {
		if p := recover(); p != nil {
			e, err = nil, fmt.Errorf("the data cannot be read: %v", p)
		}
	}()
	return embed.StartEtcd(c)
}

// Client returns the client. It is closed by Close.
func (s *Server) Client() *clientv3.Client { return s.client }

// Stopped is closed once the server has ended, by Close or by a fault.
func (s *Server) Stopped() <-chan struct{} { return s.etcd.Server.StopNotify() }

// Reclaim drops all history, frees disk space, and disarms the alarm of a used-up quota.
// Nothing is read or written meanwhile.
func (s *Server) Reclaim(ctx context.Context) error {
	r, err := s.client.Get(ctx, "\x00", clientv3.WithKeysOnly())
	if err == nil {
		_, err = s.client.Compact(ctx, r.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err == nil {
		err = s.etcd.Server.Backend().Defrag() // the client's call needs a listener's health check
	}
	if err == nil {
		_, err = s.client.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	}
	if err != nil {
		return errs.E(errs.Unavailable, "reclaim", "etcd", err)
	}
	return nil
}

// Close stops the server and unlocks the directory. All users of the client must have ended.
// Calling it again does nothing.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		s.client.Close() // always answers that its own context has ended
		s.etcd.Close()
		err = s.lock.Close()
		awaitForks()
	})
	return err
}

// awaitForks waits for children that are about to execute their programs. Until then a child
// holds copies of all files of this process, and so the locks of files that were just closed:
// the next Start would find the directory locked.
func awaitForks() {
	syscall.ForkLock.RLock()
	//lint:ignore SA2001 holding the lock once is all that is needed
	syscall.ForkLock.RUnlock()
}
