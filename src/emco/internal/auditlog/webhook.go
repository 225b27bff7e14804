package auditlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
)

// Webhook posts all lines to a server: each line at least once, those of a stream in order. One process at a time does that for all streams. What the
// server does not have yet waits in etcd, until the log removes it.
type Webhook struct {
	AuditLog *Log
	URL      *url.URL
	Client   *http.Client
	Token    func() (string, error) // bearer token of a request; nil: none
	Pause    time.Duration          // after a failure; it doubles with each more
	Log      *slog.Logger

	OnSent   func(lines int) // called for lines that the server has taken
	OnFailed func()          // called for a request that it did not take
}

// Bounds of the webhook.
const (
	hookShard   = "webhook-audit" // its owner posts
	hookBytes   = 256 << 10       // of lines in a request
	hookLines   = 1000            // in a request
	hookAnswer  = 64 << 10        // bytes of an answer that are read
	hookLongest = 5 * time.Minute // pause
)

// Name is "audit webhook".
func (w *Webhook) Name() string { return "audit webhook" }

// Ready returns nil: the log itself is in etcd.
func (w *Webhook) Ready() error { return nil }

// Run posts lines until ctx ends, while this process is the one that does.
func (w *Webhook) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		own, err := shards.Own(ctx, w.AuditLog.o.KV, hookShard, w.AuditLog.o.Holder, w.AuditLog.o.TTL)
		if err != nil {
			if ctx.Err() == nil {
				w.Log.Warn("no process may post the audit log yet; it is tried again", "err", err)
			}
			_ = pause.For(ctx, w.Pause)
			continue
		}
		owned, cancel := context.WithCancel(ctx)
		go func() { // ends with owned
			select {
			case <-own.Lost():
				cancel()
			case <-owned.Done():
			}
		}()
		w.serve(owned, webhookPositions{w.AuditLog.o.KV.Fenced(own.Fence())})
		cancel()
		_ = own.Release(context.WithoutCancel(ctx))
	}
	return nil
}

// serve posts lines until ctx ends.
func (w *Webhook) serve(ctx context.Context, at webhookPositions) {
	failures, last := 0, ""
	for ctx.Err() == nil {
		err := w.AuditLog.forward(ctx, at, w.post)
		switch {
		case err == nil:
			if failures > 0 {
				w.Log.Info("the audit log is posted again", "server", outbound.Server(w.URL))
			}
			failures, last = 0, ""
			_ = pause.For(ctx, copyEvery)
			continue
		case ctx.Err() != nil:
			return
		case err.Error() != last:
			w.Log.Error("the audit log cannot be posted; it is tried again", "server", outbound.Server(w.URL), "err", err)
		}
		last = err.Error()
		_ = pause.For(ctx, max(min(w.Pause<<min(failures, 16), hookLongest), min(errs.RetryAfter(err), hookLongest)))
		failures++
	}
}

// post posts new lines of a stream.
func (w *Webhook) post(ctx context.Context, n newLines, reached func(seq int64) error) error {
	var body bytes.Buffer
	lines, last := 0, n.after
	flush := func() error {
		if lines == 0 {
			return nil
		}
		if err := w.send(ctx, body.Bytes()); err != nil {
			if ctx.Err() == nil { // else this process stops
				w.OnFailed()
			}
			return err
		}
		w.OnSent(lines)
		lines = 0
		body.Reset()
		return reached(last)
	}
	err := w.AuditLog.each(ctx, n.blocks, n.after, n.rev, func(seq int64, line []byte) error {
		if last > 0 && seq > last+1 {
			w.Log.Error("lines of the audit log are not posted, because they are not kept any more", "stream", n.Stream, "from", last+1, "to", seq-1)
		}
		if lines == hookLines || body.Len()+len(line) >= hookBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		body.Write(line)
		body.WriteByte('\n')
		lines, last = lines+1, seq
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// send makes one request. The server has its lines if there is no error. Unavailable and Throttled concern all lines, others perhaps only these.
func (w *Webhook) send(ctx context.Context, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	if w.Token != nil {
		token, err := w.Token()
		if err != nil {
			return &errs.Error{Kind: errs.Unavailable, Err: err}
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := w.Client.Do(r)
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err // its URL may hold a secret
	}
	if err != nil {
		return errs.E(errs.Unavailable, "post to", outbound.Server(w.URL), err)
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, hookAnswer) // so that the connection is used again
	if answer.StatusCode/100 == 2 {
		return nil
	}
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")) // without a number, the pauses grow
	refusal := &errs.Error{
		Kind: errs.FromStatus(answer.StatusCode), Op: "post to", Subject: outbound.Server(w.URL), Err: fmt.Errorf("the server answers %s", answer.Status),
		After: time.Duration(min(max(seconds, 0), int(hookLongest/time.Second))) * time.Second,
	}
	if refusal.After > 0 {
		refusal.Kind = errs.Unavailable
	}
	return refusal
}

// webhookPositions is the positions of the webhook, in etcd: a later owner continues there.
type webhookPositions struct{ kv *etcdkv.Client }

func (s webhookPositions) key() string { return s.kv.Key("audit", "webhook") }

func (s webhookPositions) read(ctx context.Context) (map[string]int64, error) {
	at, _, err := etcdkv.Read[map[string]int64](ctx, s.kv, s.key())
	if errs.Is(err, errs.NotFound) || errs.Is(err, errs.Internal) || err == nil && at == nil { // if it is damaged, lines are posted twice
		return map[string]int64{}, nil
	}
	return at, err
}

// write also keeps the position of what was posted when the process was about to stop. One that has lost the shard writes nothing.
func (s webhookPositions) write(ctx context.Context, at map[string]int64) error {
	value, err := etcdkv.Encode(s.key(), at)
	if err != nil {
		return err
	}
	_, _, err = s.kv.Commit(context.WithoutCancel(ctx), "the audit log", nil, []clientv3.Op{clientv3.OpPut(s.key(), value)})
	return err
}
