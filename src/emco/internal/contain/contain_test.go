package contain_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
)

func TestF74PanicsAreContained(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	counts := map[string]int{}
	p := &contain.Panics{Log: slog.New(slog.NewTextHandler(&log, nil)), Count: func(part string) { counts[part]++ }}
	usual := errors.New("usual")
	if err := p.Do(contain.Rsync, "a", func() error { return usual }); err != usual || contain.Is(err) {
		t.Errorf("without a panic: %v", err)
	}
	err := p.Do(contain.Rsync, "shop on edge+c1", func() error { panic("index out of range") })
	if !contain.Is(err) || !strings.Contains(err.Error(), "shop on edge+c1") || strings.Contains(err.Error(), "index") {
		t.Errorf("with a panic: %v", err)
	}
	if counts[contain.Rsync] != 1 || !strings.Contains(log.String(), "index out of range") || !strings.Contains(log.String(), "contain_test.go") {
		t.Errorf("counts are %v, the log is %s", counts, log.String())
	}
	if err := (*contain.Panics)(nil).Do(contain.Git, "x", func() error { panic(1) }); !contain.Is(err) {
		t.Errorf("without a log: %v", err)
	}
}
