// Package embedded runs an etcd inside the process, for installations of one process
// and for tests.
//
// It listens nowhere: neither clients nor peers can reach it from outside of the
// process, so its data needs no password and no certificates. Its only client is the
// one it hands out, which calls the server's functions directly.
//
// Before the start it checks whether the files are damaged. It keeps a reserve of the
// disk for what etcd writes while the disk is full, and refuses writes while
// Options.Refuse returns an error. It writes snapshots, and restores them.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/fileowner"
	"github.com/emco-orchestrator/emco/src/emco/internal/logs"
)

// A child has copies of all open files of its parent, and so their locks, until its own program
// begins. The kernel closes the copies when the parent already runs again, so syscall.ForkLock does
// not cover it. A start waits for children of a server that was just closed or killed.
const (
	lockPatience = 2 * time.Second       // the longest wait, for all files
	lockPause    = 10 * time.Millisecond // between attempts
)

// readyPatience bounds the time from the opened files to the first answer, which usually is a fraction
// of a second.
const readyPatience = time.Minute

// DefaultQuota is the size of the database above which only reads are served, in bytes.
const DefaultQuota = 8 << 30

// Options configures an etcd.
type Options struct {
	Dir     string       // holds the data; made if absent, and closed to other users
	Quota   int64        // bytes of the database; 0 is DefaultQuota
	Log     *slog.Logger // gets etcd's errors; nil is none
	Refuse  func() error // its error refuses a write before etcd sees it; nil refuses none
	NoFsync bool         // for tests only: writes may be lost when the machine stops, and a full disk may end the process
}

// Server is a running etcd.
type Server struct {
	etcd   *embed.Etcd
	client *clientv3.Client
	lock   *fileutil.LockedFile
	keeper sync.WaitGroup     // of the reserve
	leave  context.CancelFunc // ends the keeper
	once   sync.Once
}

// Start returns once the server answers. History is compacted after ten minutes.
//
// Conflict if another process uses the directory and does not end within two seconds.
// Internal if the data cannot be read: the process should end then, because the
// directory stays locked until it does. Unavailable if ctx ends first.
func Start(ctx context.Context, o Options) (*Server, error) {
	if err := ctx.Err(); err != nil {
		return nil, errs.E(errs.Unavailable, "start", "etcd in "+o.Dir, err)
	}
	waiting, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	lock, err := lockDir(waiting, o.Dir)
	if err != nil {
		return nil, err
	}
	c := config(o)
	if err := awaitFiles(waiting, o.Dir, c.Dir); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if err := checkFiles(logs.Zap(o.Log, "etcd", zapcore.ErrorLevel), c.Dir); err != nil {
		return nil, errors.Join(errs.E(errs.Internal, "start", "etcd in "+o.Dir, err), lock.Close())
	}
	r := newReserve(o.Dir, c.Dir, o.Log)
	r.none = o.NoFsync
	c.ZapLoggerBuilder = loggerBuilder(o.Log, r.give)
	etcd, err := start(c)
	if err != nil { // etcd may have left files open: keep the lock
		return nil, errs.E(errs.Internal, "start", "etcd in "+o.Dir, err)
	}
	keeping, leave := context.WithCancel(context.Background())
	s := &Server{etcd: etcd, client: v3client.New(etcd.Server), lock: lock, leave: leave}
	s.keeper.Go(func() { r.run(keeping) })
	if o.Refuse != nil {
		s.client.KV = gatedKV{s.client.KV, o.Refuse}
	}
	select {
	case <-etcd.Server.ReadyNotify():
		r.keep()
		return s, nil
	case <-etcd.Server.StopNotify():
		err = errs.E(errs.Internal, "start", "etcd in "+o.Dir, errors.New("it stopped at once"))
	case <-time.After(readyPatience):
		err = errs.E(errs.Internal, "start", "etcd in "+o.Dir, fmt.Errorf("it does not become ready within %s: its disk is very slow, or its data is damaged; %s", readyPatience, wayBack))
	case <-ctx.Done():
		err = errs.E(errs.Unavailable, "start", "etcd in "+o.Dir, ctx.Err())
	}
	return nil, errors.Join(err, s.Close())
}

// loggerBuilder has etcd log its errors, and calls beforeSnapshot right before etcd writes a snapshot of its log.
func loggerBuilder(log *slog.Logger, beforeSnapshot func()) func(*embed.Config) error {
	return embed.NewZapLoggerBuilder(logs.Zap(log, "etcd", zapcore.ErrorLevel).WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewTee(core, snapshotWatch{zapcore.InfoLevel, beforeSnapshot})
	})))
}

// lockDir creates dir and locks it. etcd has a lock of its own, but waits for it without
// end.
func lockDir(ctx context.Context, dir string) (*fileutil.LockedFile, error) {
	if dir == "" {
		return nil, errs.E(errs.Invalid, "start", "etcd", errors.New("a directory is needed"))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, errs.E(errs.Internal, "start", "etcd", fileowner.Explain(err, dir))
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, errs.E(errs.Internal, "start", "etcd", fileowner.Explain(err, dir))
	}
	var lock *fileutil.LockedFile
	err := awaitLock(ctx, dir, filepath.Join(dir, "lock"), func(path string) (err error) {
		lock, err = fileutil.TryLockFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		return err
	})
	return lock, err
}

// awaitFiles waits until no process has locked etcd's files below data. Besides children, these are
// processes that do not use our lock, such as etcd's own tools. etcd would panic if its log is
// locked, and wait without end for its database. A database that cannot be read is an error too.
func awaitFiles(ctx context.Context, dir, data string) error {
	files, err := filepath.Glob(filepath.Join(data, "member", "wal", "*.wal"))
	if err != nil {
		return errs.E(errs.Internal, "start", "etcd in "+dir, err)
	}
	for _, file := range files {
		if err := awaitLock(ctx, dir, file, tryLog); err != nil {
			return err
		}
	}
	return awaitLock(ctx, dir, filepath.Join(data, "member", "snap", "db"), tryDB)
}

// awaitLock calls try until the file is not locked. Conflict if it still is when ctx ends.
func awaitLock(ctx context.Context, dir, file string, try func(file string) error) error {
	err := try(file)
	for errors.Is(err, fileutil.ErrLocked) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(lockPause):
		}
		err = try(file)
	}
	switch {
	case errors.Is(err, fileutil.ErrLocked):
		return errs.E(errs.Conflict, "start", "etcd in "+dir, fmt.Errorf("another process has locked %s; stop that process, or choose another directory", file))
	case err != nil:
		return errs.E(errs.Internal, "start", "etcd in "+dir, err)
	}
	return nil
}

// tryLog returns fileutil.ErrLocked if another process has locked a file of the log. No child
// starts meanwhile: it would have our lock when etcd tries it.
func tryLog(path string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	lock, err := fileutil.TryLockFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return lock.Close()
}

// tryDB returns fileutil.ErrLocked if another process has locked the database, and an error if it is
// none.
func tryDB(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Nanosecond}) // one attempt
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return fileutil.ErrLocked
	}
	if err != nil {
		return damaged(path, err)
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
	// It elects itself a tenth of a second after its start. Without this, etcd counts the ticks before its election as over at once,
	// and the election may come while raft has not noted yet that the log was applied and cut: then etcd panics.
	c.TickMs, c.ElectionMs, c.InitialElectionTickAdvance = 20, 100, false
	c.SnapshotCount, c.SnapshotCatchUpEntries = 256, 64 // bounds the log in memory: an entry has up to 1 MiB
	c.UnsafeNoFsync = o.NoFsync
	return c
}

// start turns panics of etcd, when it cannot read the data, into errors.
func start(c *embed.Config) (e *embed.Etcd, err error) {
	defer func() {
		if p := recover(); p != nil {
			e, err = nil, fmt.Errorf("the data cannot be read: %v; %s", p, wayBack)
		}
	}()
	return embed.StartEtcd(c)
}

// Snapshot writes all data of one moment to w, with a checksum at its end.
func (s *Server) Snapshot(ctx context.Context, w io.Writer) error {
	r, err := s.client.Snapshot(ctx)
	if err != nil {
		return errs.E(errs.Unavailable, "snapshot", "etcd", err)
	}
	defer r.Close()
	if _, err := io.Copy(w, r); err != nil {
		return errs.E(errs.Unavailable, "snapshot", "etcd", err)
	}
	return nil
}

// revisionBump is above the number of writes between a snapshot and its restore. Revisions that processes and
// repositories remember, such as those of fences, stay below all later ones.
const revisionBump = 1_000_000_000

// Restore makes the data of a server in dir, which must have none, from a snapshot in a file.
func Restore(file, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return errs.E(errs.Unavailable, "restore", "etcd in "+dir, err)
	}
	c := config(Options{Dir: dir})
	err := snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: file, Name: c.Name, OutputDataDir: c.Dir, PeerURLs: []string{"http://localhost:2380"},
		InitialCluster: c.InitialCluster, InitialClusterToken: c.InitialClusterToken, RevisionBump: revisionBump, MarkCompacted: true,
	})
	if err != nil {
		return errs.E(errs.Invalid, "restore", "etcd in "+dir, err)
	}
	return nil
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
		s.leave()
		s.keeper.Wait()
		s.client.Close() // always answers that its own context has ended
		s.etcd.Close()
		err = s.lock.Close()
	})
	return err
}
