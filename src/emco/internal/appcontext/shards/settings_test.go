package shards

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// A process names the settings that differ in other processes, logs each once, and says when all agree again. It starts, and a process of an
// older version, which announces none, differs in nothing.
func TestProcessesCompareTheirSettings(t *testing.T) {
	t.Parallel()
	kv, log := newKV(t), &lockedBuffer{}
	with := func(settings map[string]string) func(*Level) {
		return func(l *Level) {
			l.own.Settings = settings
			l.settings.own, l.settings.log = settings, slog.New(slog.NewTextHandler(log, nil))
		}
	}
	wants := func(l levelProcess, want string) {
		t.Helper()
		eventually(t, want, func() bool { return l.Settings().State() == want })
	}
	one := process(t, kv, "one", 1, with(map[string]string{"a": "1", "b": "x"}))
	process(t, kv, "older", 1)
	wants(one, "those of 0 other processes agree")
	process(t, kv, "same", 1, with(map[string]string{"a": "1", "b": "x", "new": "y"}))
	wants(one, "those of 1 other processes agree")
	two := process(t, kv, "two", 1, with(map[string]string{"a": "2", "b": "x"}))
	wants(two, "these differ: a in one and 1 more; give all processes the same")
	wants(one, "these differ: a in two; give all processes the same")
	if err := two.Settings().Ready(); err != nil || one.Settings().Differing() != 1 {
		t.Errorf("it is not ready (%v), or %d settings differ, want one", err, one.Settings().Differing())
	}
	three := process(t, kv, "three", 1, with(map[string]string{"a": "1", "b": "z"}))
	wants(one, "these differ: a in two, b in three; give all processes the same")
	for range 3 {
		<-one.reads
	}
	must(t, two.stop())
	must(t, three.stop())
	wants(one, "those of 1 other processes agree")
	text := log.String()
	for _, line := range []string{
		"setting=a here=1 process=two there=2 more=0", "setting=b here=x process=three there=z", "setting=a here=2 process=one there=1 more=1", "agree again",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the log lacks %q:\n%s", line, text)
		}
	}
	if n := strings.Count(text, "setting=a here=1 process=two"); n != 3 { // of one, same and three
		t.Errorf("%d lines about a difference that three processes have, want 3:\n%s", n, text)
	}
}

// A process finds what differs before it serves.
func TestAStartComparesSettings(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	announced := func(name, value string) *Level {
		l := NewLevel(etcdkv.New(kv.Etcd(), kv.Key(), etcdkv.Options{}), Member{Holder: name, TTL: 10 * time.Second}, Program{Level: 1, Settings: map[string]string{"auth.fourEyes": value}}, time.Hour)
		must(t, l.Join(t.Context()))
		t.Cleanup(func() { _ = l.Leave(context.Background()) })
		return l
	}
	announced("one", "shop")
	if got, want := announced("two", "").Settings().State(), "these differ: auth.fourEyes in one; give all processes the same"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
