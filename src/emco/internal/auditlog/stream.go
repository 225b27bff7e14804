package auditlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
)

// usualLine is the room for a line, in bytes.
const usualLine = 640

// maxStreams bounds the streams, and so the processes that write at the same time.
const maxStreams = 100

// shardPrefix begins the names of the shards whose owners write streams.
const shardPrefix = "audit-"

// headRecord is the last line of a stream.
type headRecord struct {
	Seq   int64  `json:"seq"`
	Hash  string `json:"hash"`
	Spool string `json:"spool,omitempty"` // id of the spool that lines came from
	Upto  int64  `json:"upto,omitempty"`  // ordinal of the last of them
}

// stream is a stream that this process owns.
type stream struct {
	kv   *etcdkv.Client
	own  *shards.Ownership
	name string
	head headRecord
	rev  int64 // at which the head was written; 0: never

	text, keys int // bytes and groups of lines since the last full segment
}

func headKey(kv *etcdkv.Client, name string) string { return kv.Key("audit", "head", name) }
func lineKey(kv *etcdkv.Client, name string, first int64) string {
	return kv.Key("audit", "line", name, etcdkv.Number(first))
}

// openStream returns the first stream that no other process writes.
func openStream(ctx context.Context, o Options) (*stream, error) {
	taken, err := owners(ctx, o.KV)
	if err != nil {
		return nil, err
	}
	for n := range maxStreams {
		name := fmt.Sprintf("%02d", n)
		if holder, ok := taken[name]; ok && holder != o.Holder {
			continue
		}
		s, err := claimStream(ctx, o, name)
		if errors.Is(err, errSpoiltHead) { // it stays for verify
			o.Log.Error("a stream of the audit log is left alone, because its head cannot be read", "stream", name, "err", err)
			continue
		}
		if s != nil || err != nil {
			return s, err
		}
	}
	return nil, fmt.Errorf("all %d streams of the audit log have another writer or cannot be read; stop processes of EMCO that are not needed", maxStreams)
}

// owners returns who writes streams, by stream.
func owners(ctx context.Context, kv *etcdkv.Client) (map[string]string, error) {
	out := map[string]string{}
	prefix := kv.Key("own", shardPrefix)
	for kv, err := range kv.List(ctx, etcdkv.Scan{Prefix: prefix}) {
		if err != nil {
			return nil, err
		}
		out[strings.TrimPrefix(string(kv.Key), prefix)] = string(kv.Value)
	}
	return out, nil
}

// claimStream owns a stream; nil if another process was faster.
func claimStream(ctx context.Context, o Options, name string) (*stream, error) {
	claiming, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	own, err := shards.Own(claiming, o.KV, shardPrefix+name, o.Holder, o.TTL)
	if err != nil {
		if claiming.Err() != nil && ctx.Err() == nil {
			return nil, nil
		}
		return nil, err
	}
	s := &stream{kv: o.KV.Fenced(own.Fence()), own: own, name: name}
	if err := s.readHead(ctx); err != nil {
		_ = own.Release(ctx)
		return nil, err
	}
	return s, nil
}

func (s *stream) readHead(ctx context.Context) error {
	h, kv, err := etcdkv.Read[headRecord](ctx, s.kv, headKey(s.kv, s.name))
	if errs.Is(err, errs.NotFound) {
		return nil
	}
	switch {
	case err == nil:
		s.head, s.rev = h, kv.ModRevision
	case kv != nil:
		err = fmt.Errorf("%w: %w", errSpoiltHead, err)
	}
	return err
}

// errSpoiltHead means that the head of a stream is there and cannot be read.
var errSpoiltHead = errors.New("the head of the stream is damaged")

// errMoved means that the head of the stream is not what this process wrote last.
var errMoved = errors.New("another process has written the stream of this one")

// write chains lines and writes them in one transaction. After an error it may be called again with the same
// lines: they are written once.
func (s *stream) write(ctx context.Context, group []*pendingLine, spool string) error {
	next, text, err := s.chain(group, spool)
	if err != nil {
		return err
	}
	value, err := etcdkv.Encode(headKey(s.kv, s.name), next)
	if err != nil {
		return err
	}
	key, head := lineKey(s.kv, s.name, s.head.Seq+1), headKey(s.kv, s.name)
	same := clientv3.Compare(clientv3.ModRevision(head), "=", s.rev)
	rev, ok, err := s.kv.Commit(ctx, "the audit log", []clientv3.Cmp{same}, []clientv3.Op{clientv3.OpPut(key, string(text)), clientv3.OpPut(head, value)})
	if err != nil || !ok {
		moved := err == nil || errors.Is(err, etcdkv.ErrFenced)
		if moved {
			err = errMoved
		} else if barred := s.kv.Barrier(ctx, s.own.Fence()); barred != nil && !errors.Is(barred, etcdkv.ErrFenced) {
			return errors.Join(err, barred)
		}
		made, unread := s.made(ctx, key, text)
		if unread != nil { // they may be written: this process keeps the stream until it knows
			return unread
		}
		if made == 0 {
			return err
		}
		rev = made
	}
	s.head, s.rev = next, rev
	s.text, s.keys = s.text+len(text)+1, s.keys+1
	return nil
}

// filled reports whether the lines of a segment were written since it did so before.
func (s *stream) filled() bool {
	if s.text <= segmentText && s.keys <= segmentKeys {
		return false
	}
	s.text, s.keys = 0, 0
	return true
}

// made returns the revision of a transaction that was not answered; 0 if it was not made.
func (s *stream) made(ctx context.Context, key string, text []byte) (int64, error) {
	r, err := s.kv.Get(ctx, key)
	if err != nil || len(r.Kvs) == 0 || !bytes.Equal(r.Kvs[0].Value, text) {
		return 0, err
	}
	return r.Kvs[0].ModRevision, nil
}

// chain gives lines their places, and returns the head after them and their text.
func (s *stream) chain(group []*pendingLine, spool string) (headRecord, []byte, error) {
	next := s.head
	text := make([]byte, 0, len(group)*usualLine)
	for _, p := range group {
		l := &p.line
		if l.Stream != "" && l.Stream != s.name {
			l.Of = 0 // its intent is in the stream that this process wrote before
		}
		l.Version, l.Stream, l.Seq, l.Prev = audit.Version, s.name, next.Seq+1, next.Hash
		line, err := l.Encode()
		if err != nil {
			return next, nil, err
		}
		if p.seq = l.Seq; len(text) > 0 {
			text = append(text, '\n')
		}
		text = append(text, line...)
		next.Seq, next.Hash = l.Seq, audit.Hash(line)
		if p.ordinal > 0 {
			next.Spool, next.Upto = spool, p.ordinal
		}
	}
	return next, text, nil
}
