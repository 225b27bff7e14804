package childproc_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/childproc"
)

// shell is a child that runs a script.
func shell(script string) childproc.Child {
	return childproc.Child{
		Path: "/bin/sh", Args: []string{"-c", script}, Dir: "/",
		Limits: childproc.Limits{Time: 20 * time.Second, Memory: 64 << 20, Output: 1000},
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	t.Run("a question and its answer, in an empty environment", func(t *testing.T) {
		t.Parallel()
		c := shell(`read q; echo "$q $GREETING $HOME" ; echo aside >&2`)
		c.Env = []string{"GREETING=hello"}
		a, err := c.Ask(t.Context(), []byte("why\n"))
		if err != nil || string(a.Text) != "why hello \n" || a.Stderr != "aside\n" {
			t.Errorf("Ask = %q, %q, %v", a.Text, a.Stderr, err)
		}
	})
	t.Run("a late child is killed with its descendants", func(t *testing.T) {
		t.Parallel()
		c := shell("sleep 600 & sleep 600")
		c.Limits.Time = 200 * time.Millisecond
		if _, err := c.Ask(t.Context(), nil); !errors.Is(err, childproc.ErrLate) {
			t.Errorf("Ask = %v, want ErrLate", err)
		}
	})
	t.Run("a child that works without end, however long that takes", func(t *testing.T) {
		t.Parallel()
		c := shell("while :; do :; done")
		c.Limits.Time, c.Limits.Work = 10*time.Minute, 300*time.Millisecond
		if _, err := c.Ask(t.Context(), nil); !errors.Is(err, childproc.ErrSpent) {
			t.Errorf("Ask = %v, want ErrSpent", err)
		}
	})
	t.Run("a child that ends itself has not used up its time", func(t *testing.T) {
		t.Parallel()
		c := shell("kill -9 $$")
		c.Limits.Work = 10 * time.Second
		if _, err := c.Ask(t.Context(), nil); err == nil || errors.Is(err, childproc.ErrSpent) {
			t.Errorf("Ask = %v, want how it ended", err)
		}
	})
	t.Run("a child that writes without end", func(t *testing.T) {
		t.Parallel()
		if _, err := shell("while :; do echo more; done").Ask(t.Context(), nil); !errors.Is(err, childproc.ErrLong) {
			t.Errorf("Ask = %v, want ErrLong", err)
		}
	})
	t.Run("a child that reads nothing and fails", func(t *testing.T) {
		t.Parallel()
		a, err := shell("echo broken >&2; exit 3").Ask(t.Context(), make([]byte, 1<<20))
		if err == nil || !strings.Contains(err.Error(), "exit status 3") || a.Stderr != "broken\n" {
			t.Errorf("Ask = %q, %v, want exit status 3", a.Stderr, err)
		}
	})
	t.Run("the caller has given up", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := shell("sleep 600").Ask(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Ask = %v, want Canceled", err)
		}
	})
}
