package web

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// In a minute one failed handshake is logged; the next line counts those that were left out. Probes that send nothing are not warned of.
func TestFailedHandshakesAreLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Unix(1_000_000, 0)
	h := &handshakeLog{log: slog.New(slog.NewTextHandler(&out, nil)), now: func() time.Time { return now }}
	for i := range 300 {
		fmt.Fprintf(h, "http: TLS handshake error from 192.0.2.7:%d: tls: unsupported versions\n", 1000+i)
		fmt.Fprintf(h, "http: TLS handshake error from 192.0.2.8:%d: EOF\n", 1000+i)
		now = now.Add(time.Second)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines in five minutes, want 5:\n%s", len(lines), out.String())
	}
	for _, want := range []string{"client=192.0.2.7:1060", "unsupported versions", "leftOutBefore=59", "level=WARN"} {
		if !strings.Contains(lines[1], want) {
			t.Errorf("%q is missing in %s", want, lines[1])
		}
	}
}
