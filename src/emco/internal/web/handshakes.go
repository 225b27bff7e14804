package web

import (
	"bytes"
	"log/slog"
	"sync"
	"time"
)

// handshakeLog logs what net/http logs. Of the clients whose TLS handshakes fail it logs one in a minute, with the number of those
// before it that it left out: they are strangers, and may be many. Other lines, and connections that end before a handshake, as
// probes of load balancers do, are for debugging.
type handshakeLog struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	last time.Time // guarded by mu
	left int       // since then; guarded by mu
}

// handshakePause is the time between two lines about failed handshakes.
const handshakePause = time.Minute

// Write logs a line of net/http.
func (h *handshakeLog) Write(line []byte) (int, error) {
	text, failed := bytes.CutPrefix(bytes.TrimSpace(line), []byte("http: TLS handshake error from "))
	if !failed || bytes.HasSuffix(text, []byte(": EOF")) {
		h.log.Debug(string(bytes.TrimSpace(line)))
		return len(line), nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	if now.Sub(h.last) < handshakePause {
		h.left++
		return len(line), nil
	}
	client, reason, _ := bytes.Cut(text, []byte(": "))
	h.log.Warn("the TLS handshake of a client failed", "client", string(client), "err", string(reason), "leftOutBefore", h.left)
	h.last, h.left = now, 0
	return len(line), nil
}
