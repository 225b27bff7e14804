package render_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
)

// quoting is a renderer that quotes values.
type quoting struct {
	rendertest.Plain
	err error
}

func (q quoting) Render(context.Context, render.Request) (render.Result, error) {
	return render.Result{Findings: []string{"a.yaml: annotation s3cr3t-value is odd"}}, q.err
}

func TestF70OverrideValuesAreScrubbedFromTexts(t *testing.T) {
	t.Parallel()
	req := render.Request{App: "web", Overrides: []render.Override{
		{Key: "db.name", Value: "s3cr3t-value"}, // the name of the key is no hint
		{Key: "list", Value: `{first\,part,second part}`},
		{Key: "quoted", Value: "with \"quotes\""},
		{Key: "replicas", Value: "2"},
		{Key: "on", Value: "true"},
	}}
	for _, tt := range []struct{ text, want string }{
		{`value "s3cr3t-value" is too short`, `value "***" is too short`},
		{"bad czNjcjN0LXZhbHVl here", "bad *** here"},
		{"got [first,part second part]", "got [*** ***]"},
		{`got "with \"quotes\""`, `got "***"`},
		{"2 of 2 are true", "2 of 2 are true"},
	} {
		err := (&render.Fault{App: "web", File: "web/a.yaml", Line: 3, Reason: tt.text}).Invalid()
		res, err := render.Scrubbed(quoting{err: err}).Render(t.Context(), req)
		f, ok := errors.AsType[*render.Fault](err)
		if !ok || f.Reason != tt.want || f.Line != 3 || !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: scrubbed to %v, want %s", tt.text, err, tt.want)
		}
		if strings.Contains(strings.Join(res.Findings, ""), "s3cr3t") {
			t.Errorf("findings hold the value: %q", res.Findings)
		}
	}
	_, err := render.Scrubbed(quoting{err: errs.New(errs.Unavailable, "child: panic: s3cr3t-value")}).Render(t.Context(), req)
	if !errs.Is(err, errs.Unavailable) || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("got %v", err)
	}
	if _, err := render.Scrubbed(quoting{}).Render(t.Context(), req); err != nil {
		t.Errorf("got %v", err)
	}
}
