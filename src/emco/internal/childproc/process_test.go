package childproc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/childproc"
)

// start starts a shell that answers several questions.
func start(t *testing.T, questions int, change func(*childproc.Limits), script string) *childproc.Process {
	t.Helper()
	c := shell(script)
	c.Limits.Work = 10 * time.Second
	if change != nil {
		change(&c.Limits)
	}
	p, err := c.Start(questions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.End)
	return p
}

// ask asks a question with a second of processor time.
func ask(t *testing.T, p *childproc.Process, question string) (string, error) {
	t.Helper()
	a, err := p.Ask(t.Context(), []byte(question), time.Second)
	return string(a.Text), err
}

func TestAProcessAnswersSeveralQuestions(t *testing.T) {
	t.Parallel()
	p := start(t, 3, nil, `while read q; do echo "to $q"; done`)
	for i := range 3 {
		if got, err := ask(t, p, fmt.Sprint(i)); err != nil || got != fmt.Sprint("to ", i) || p.Fit() != (i < 2) {
			t.Errorf("Ask = %q, %v; fit: %t", got, err, p.Fit())
		}
	}
	if got, err := ask(t, p, "4"); err == nil {
		t.Errorf("one question too many is answered %q", got)
	}
}

// The thread that starts a child may end before a child that answers several questions does.
func TestAProcessCannotBeTied(t *testing.T) {
	t.Parallel()
	c := shell("read q")
	c.Tied = true
	if p, err := c.Start(1); err == nil {
		p.End()
		t.Error("a tied child was started, and nothing ties it")
	}
}

// Asking leaves the question as it is, also the bytes behind it.
func TestAskLeavesTheQuestion(t *testing.T) {
	t.Parallel()
	p := start(t, 1, nil, `read q; echo "$q"`)
	question := []byte("why not")
	if got, err := p.Ask(t.Context(), question[:3], time.Second); err != nil || string(got.Text) != "why" || string(question) != "why not" {
		t.Errorf("Ask = %q, %v; the question is %q", got.Text, err, question)
	}
}

// Each question has its own processor time, however long others use the processors.
func TestProcessorTimeCountsForEachQuestion(t *testing.T) {
	t.Parallel()
	p := start(t, 9, func(l *childproc.Limits) { l.Time = 10 * time.Minute }, `while read q; do
		if [ "$q" = loop ]; then while :; do :; done; fi
		i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done
	done`)
	for range 8 {
		if got, err := ask(t, p, "count"); err != nil || got != "done" {
			t.Fatalf("Ask = %q, %v", got, err)
		}
	}
	if _, err := ask(t, p, "loop"); !errors.Is(err, childproc.ErrSpent) || p.Fit() {
		t.Errorf("Ask = %v, want ErrSpent; fit: %t", err, p.Fit())
	}
}

func TestAProcessEndsWithAFailure(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		script string
		want   error
		change func(*childproc.Limits)
	}{
		{"read q; sleep 600 & sleep 600", childproc.ErrLate, func(l *childproc.Limits) { l.Time = 200 * time.Millisecond }},
		{"exec >&-; sleep 600", childproc.ErrLate, func(l *childproc.Limits) { l.Time = 200 * time.Millisecond }},
		{"read q; while :; do printf more; done", childproc.ErrLong, nil},
		{"read q; printf '%01001d\\n' 1; sleep 600", childproc.ErrLong, nil},
		{"read q; echo half >&2; printf half; exit 3", nil, nil},
		{"exit 0", nil, nil},
	} {
		p := start(t, 2, tt.change, tt.script)
		got, err := ask(t, p, "why")
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || p.Fit() {
			t.Errorf("%s: Ask = %q, %v, want %v; fit: %t", tt.script, got, err, tt.want, p.Fit())
		}
		if _, err := ask(t, p, "again"); err == nil {
			t.Errorf("%s: another question is answered", tt.script)
		}
	}
	p := start(t, 2, nil, "read q; sleep 600")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Ask(ctx, nil, time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Ask = %v, want the error of its context", err)
	}
}

func TestAProcessThatSaysMoreIsNotFit(t *testing.T) {
	t.Parallel()
	p := start(t, 2, nil, `read q; printf 'one\ntwo\n'; read q`)
	if got, err := ask(t, p, "why"); err != nil || got != "one" || p.Fit() {
		t.Errorf("Ask = %q, %v; fit: %t", got, err, p.Fit())
	}
	p = start(t, 2, nil, `read q; echo broken >&2; exit 3`)
	if a, err := p.Ask(t.Context(), []byte("why"), time.Second); err == nil || !strings.Contains(err.Error(), "exit status 3") || a.Stderr != "broken\n" {
		t.Errorf("Ask = %q, %v", a.Stderr, err)
	}
}
