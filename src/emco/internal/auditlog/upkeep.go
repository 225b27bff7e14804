package auditlog

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Bounds of a segment.
const (
	segmentText = 512 << 10 // bytes of lines
	segmentKeys = 1000      // groups
)

// segment is the entry of a segment in the index.
type segment struct {
	Stream string    `json:"-"`
	First  int64     `json:"-"`
	Spoilt string    `json:"-"` // key of an entry that cannot be read; its content was computed from the segment, if that is there
	Last   int64     `json:"last"`
	Hash   string    `json:"hash"`          // of the last line
	From   time.Time `json:"from,omitzero"` // of the oldest line; zero: an earlier version made it
	Until  time.Time `json:"until"`         // of the newest line; of the last one if an earlier version made it
	Bytes  int64     `json:"bytes"`
}

func segmentKey(kv *etcdkv.Client, name string, first int64) string {
	return kv.Key("audit", "segment", name, etcdkv.Number(first))
}

func indexKey(kv *etcdkv.Client, name string, first int64) string {
	return kv.Key("audit", "index", name, etcdkv.Number(first))
}
func anchorKey(kv *etcdkv.Client, name string) string { return kv.Key("audit", "anchor", name) }

// upkeep compresses and removes old lines until ctx ends: each segment as soon as this process has written its lines, and all else that is due from
// time to time. So a busy process never compresses the lines of a minute at once, which would delay its requests.
func (t *Log) upkeep(ctx context.Context) {
	marked := t.o.Now()
	tick := time.NewTicker(upkeep)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-t.full:
			err = t.compressOwn(ctx)
		case <-tick.C:
			if now := t.o.Now(); now.Sub(marked) >= markEvery {
				if heads, err := t.heads(ctx); err == nil {
					t.Note(audit.Line{Phase: audit.Mark, Heads: heads})
					marked = now
				}
			}
			err = t.Tidy(ctx)
		}
		if err != nil && ctx.Err() == nil {
			t.o.Log.Warn("cannot compress or remove old lines of the audit log; EMCO tries again", "err", err)
		}
	}
}

// compressOwn compresses the oldest lines of the stream that this process writes.
func (t *Log) compressOwn(ctx context.Context) error {
	t.mu.Lock()
	own := t.stream
	t.mu.Unlock()
	if own == "" {
		return nil
	}
	_, err := t.compress(ctx, own)
	return err
}

// Tidy compresses and removes what is due, in the streams that this process writes or no process does. A stream that cannot be compressed does
// not keep others from it.
func (t *Log) Tidy(ctx context.Context) error {
	taken, err := owners(ctx, t.o.KV)
	if err != nil {
		return err
	}
	t.mu.Lock()
	own := t.stream
	t.mu.Unlock()
	heads, err := t.heads(ctx)
	if err != nil {
		return err
	}
	first := true // of those that are written; its owner removes lines
	for _, h := range heads {
		_, written := taken[h.Stream]
		if written && h.Stream != own {
			first = first && own < h.Stream
			continue
		}
		for more := true; more; {
			var failed error
			more, failed = t.compress(ctx, h.Stream)
			err = errors.Join(err, failed)
		}
	}
	if first && own != "" {
		err = errors.Join(err, t.trim(ctx))
	}
	return err
}

// compress compresses the oldest lines of a stream if there are enough, or if they are old.
func (t *Log) compress(ctx context.Context, name string) (bool, error) {
	kv := t.o.KV
	var keys []*mvccpb.KeyValue
	var text []byte
	full := false
	for item, err := range kv.List(ctx, etcdkv.Scan{Prefix: kv.Key("audit", "line", name) + "/"}) {
		if err != nil {
			return false, err
		}
		if full = len(keys) == segmentKeys || len(text)+len(item.Value) > segmentText && len(keys) > 0; full {
			break
		}
		if keys = append(keys, item); len(text) > 0 {
			text = append(text, '\n')
		}
		text = append(text, item.Value...)
	}
	if len(keys) == 0 {
		return false, nil
	}
	all := bytes.Split(text, []byte("\n"))
	var oldest, last audit.Line
	if err := errors.Join(json.Unmarshal(all[0], &oldest), json.Unmarshal(all[len(all)-1], &last)); err != nil {
		return false, etcdkv.Corrupt(string(keys[0].Key), err)
	}
	if !full && t.o.Now().Sub(oldest.Time) < compressAfter {
		return false, nil
	}
	packed, err := pack(text)
	if err != nil {
		return false, err
	}
	made := segment{Last: last.Seq, Hash: audit.Hash(all[len(all)-1]), Bytes: int64(len(packed))}
	made.From, made.Until = times(all)
	index, err := etcdkv.Encode(name, made)
	if err != nil {
		return false, err
	}
	from, to := string(keys[0].Key), string(keys[len(keys)-1].Key)
	there := clientv3.Compare(clientv3.ModRevision(from), "=", keys[0].ModRevision)
	_, ok, err := kv.Commit(ctx, "the audit log", []clientv3.Cmp{there}, []clientv3.Op{
		clientv3.OpPut(segmentKey(kv, name, oldest.Seq), string(packed)), clientv3.OpPut(indexKey(kv, name, oldest.Seq), index),
		clientv3.OpDelete(from, clientv3.WithRange(to+"\x00")),
	})
	return ok && err == nil, err
}

// times returns the times of the oldest and the newest line.
func times(lines [][]byte) (from, until time.Time) {
	for _, line := range lines {
		var l struct{ Time time.Time } // the rest is not looked at: a busy process compresses all its lines
		if json.Unmarshal(line, &l) != nil {
			continue
		}
		if from.IsZero() || l.Time.Before(from) {
			from = l.Time
		}
		if l.Time.After(until) {
			until = l.Time
		}
	}
	return from, until
}

func pack(text []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(text)
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}

// maxUnpacked bounds what a segment unpacks to.
const maxUnpacked = 4 * segmentText

func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	if err == nil && len(text) > maxUnpacked {
		err = errors.New("the segment is larger than any that was written")
	}
	return text, err
}

// index returns the segments of a stream whose first lines are after one, or with an empty name those of all streams,
// by stream and in order, at a revision of etcd; 0 is the newest. An entry that cannot be read hides no other one.
func (t *Log) index(ctx context.Context, name string, after, rev int64) (out []segment, err error) {
	scan := etcdkv.Scan{Prefix: t.o.KV.Key("audit", "index") + "/", Revision: rev}
	if name != "" {
		scan.Prefix += name + "/"
		scan.After = indexKey(t.o.KV, name, max(0, after))
	}
	for item, err := range t.o.KV.List(ctx, scan) {
		if err != nil {
			return nil, err
		}
		s, err := t.entry(ctx, item, rev)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// entry reads an entry of the index. If it cannot be read, it computes the entry from the segment: a segment that is spoilt as well, or that the key
// does not name, has no lines.
func (t *Log) entry(ctx context.Context, item *mvccpb.KeyValue, rev int64) (segment, error) {
	s, spoilt := etcdkv.Decode[segment](item)
	stream, first, misplaced := place(t.o.KV, item.Key)
	if spoilt == nil && misplaced == nil && s.Last < first {
		spoilt = etcdkv.Corrupt(string(item.Key), errors.New("it names no lines"))
	}
	if spoilt = errors.Join(spoilt, misplaced); spoilt == nil {
		s.Stream, s.First = stream, first
		return s, nil
	}
	t.damaged("an entry in the index of the audit log cannot be read", string(item.Key), spoilt)
	s = segment{Stream: stream, First: first, Last: first - 1, Spoilt: string(item.Key)}
	if misplaced != nil {
		return s, nil
	}
	lines, packed, err := t.unpacked(ctx, stream, first, rev)
	if err != nil || len(lines) == 0 {
		return s, err
	}
	end := lines[len(lines)-1]
	var last audit.Line
	if json.Unmarshal(end, &last) == nil {
		s.Last, s.Hash, s.Bytes = first+int64(len(lines))-1, audit.Hash(end), packed
		s.From, s.Until = times(lines)
	}
	return s, nil
}

// place returns the stream and the number in a key, as far as it has them.
func place(kv *etcdkv.Client, key []byte) (stream string, first int64, err error) {
	parts := kv.Split(key)
	if len(parts) > 2 {
		stream = parts[2]
	}
	if len(parts) != 4 {
		return stream, 0, etcdkv.Corrupt(string(key), errors.New("the key is none of the audit log"))
	}
	if err := json.Unmarshal([]byte(cmp.Or(strings.TrimLeft(parts[3], "0"), "0")), &first); err != nil {
		return stream, 0, etcdkv.Corrupt(string(key), err)
	}
	return stream, first, nil
}

// maxDamages bounds the keys that are remembered as damaged.
const maxDamages = 1000

// damaged logs that a key cannot be read: once, because copies look again each second.
func (t *Log) damaged(message, key string, err error) {
	t.mu.Lock()
	_, told := t.damages[key]
	if len(t.damages) == maxDamages {
		clear(t.damages)
	}
	if t.damages == nil {
		t.damages = map[string]struct{}{}
	}
	t.damages[key] = struct{}{}
	t.mu.Unlock()
	if !told {
		t.o.Log.Error(message, "err", err)
	}
}

// trim removes segments that are too old, and the oldest ones while all together are too large.
func (t *Log) trim(ctx context.Context) error {
	all, err := t.index(ctx, "", 0, 0)
	if err != nil {
		return err
	}
	cut, early := t.due(all)
	if len(cut) == 0 {
		return nil
	}
	anchors, err := t.anchors(ctx, 0)
	if err != nil {
		return err
	}
	for name, s := range cut {
		anchors[name] = audit.Head{Stream: name, Seq: s.Last, Hash: s.Hash}
	}
	heads := make([]audit.Head, 0, len(anchors))
	for _, h := range anchors {
		heads = append(heads, h)
	}
	slices.SortFunc(heads, func(a, b audit.Head) int { return strings.Compare(a.Stream, b.Stream) })
	if err := t.record(ctx, audit.Line{Phase: audit.Trim, Heads: heads}); err != nil {
		return err
	}
	var failed error
	for name, s := range cut {
		removed, err := t.remove(ctx, name, s)
		if failed = errors.Join(failed, err); !removed {
			delete(cut, name)
		}
	}
	n := 0
	for _, s := range all {
		if c, ok := cut[s.Stream]; ok && s.Last <= c.Last {
			n += int(s.Last - s.First + 1)
		}
	}
	t.o.OnTrim(early, n)
	return failed
}

// due returns the last segment to remove of each stream, and whether space and not age is the reason for some. A segment without lines goes with
// the next one that has some.
func (t *Log) due(all []segment) (cut map[string]segment, early bool) {
	cut = map[string]segment{}
	var bytes int64
	all = slices.DeleteFunc(slices.Clone(all), func(s segment) bool { return s.Last < s.First })
	for _, s := range all {
		bytes += s.Bytes
	}
	slices.SortStableFunc(all, func(a, b segment) int { return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.First, b.First)) })
	for _, s := range all {
		old := t.o.Now().Sub(s.Until) > t.o.Keep
		if !old && bytes <= t.o.Bytes {
			break
		}
		early = early || !old
		bytes -= s.Bytes
		if s.Last > cut[s.Stream].Last {
			cut[s.Stream] = s
		}
	}
	return cut, early
}

// record writes a line and waits for it.
func (t *Log) record(ctx context.Context, l audit.Line) error {
	p := &pendingLine{line: l, done: make(chan error, 1)}
	if err := t.demand(p); err != nil {
		return err
	}
	return t.await(ctx, p)
}

// remove deletes the segments of a stream up to one; false if another process has removed lines of it meanwhile.
func (t *Log) remove(ctx context.Context, name string, s segment) (bool, error) {
	kv, key := t.o.KV, anchorKey(t.o.KV, name)
	old, item, err := etcdkv.Read[audit.Head](ctx, kv, key)
	same := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	switch {
	case errs.Is(err, errs.NotFound):
	case err != nil:
		return false, err
	case old.Seq >= s.Last:
		return false, nil
	default:
		same = clientv3.Compare(clientv3.ModRevision(key), "=", item.ModRevision)
	}
	value, err := etcdkv.Encode(key, audit.Head{Stream: name, Seq: s.Last, Hash: s.Hash})
	if err != nil {
		return false, err
	}
	upto := func(of func(*etcdkv.Client, string, int64) string) clientv3.Op {
		return clientv3.OpDelete(of(kv, name, 0), clientv3.WithRange(of(kv, name, s.First)+"\x00"))
	}
	_, ok, err := kv.Commit(ctx, "the audit log", []clientv3.Cmp{same}, []clientv3.Op{upto(segmentKey), upto(indexKey), clientv3.OpPut(key, value)})
	return ok, err
}

// anchors returns the last removed line of each stream that lost some, at a revision of etcd.
func (t *Log) anchors(ctx context.Context, rev int64) (map[string]audit.Head, error) {
	out := map[string]audit.Head{}
	for item, err := range t.o.KV.List(ctx, etcdkv.Scan{Prefix: t.o.KV.Key("audit", "anchor") + "/", Revision: rev}) {
		if err != nil {
			return nil, err
		}
		h, err := etcdkv.Decode[audit.Head](item)
		if err != nil {
			return nil, err
		}
		out[h.Stream] = h
	}
	return out, nil
}
