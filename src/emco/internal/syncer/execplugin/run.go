package execplugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/childproc"
)

const (
	maxLine = 300 // bytes of an executable's output that an error shows
	secret  = 4   // values of options of at least this length are kept out of errors
)

// runner runs one executable, once for each request.
type runner struct {
	name, path string
	limits     Limits
	slots      chan struct{}
	options    map[string]string
}

// call sends a request and returns the response.
func (r runner) call(ctx context.Context, q request) (response, error) {
	q.Version, q.Options = version, r.options
	text, err := json.Marshal(q)
	if err != nil {
		return response{}, r.broken(err)
	}
	if text, err = r.run(ctx, text); err != nil {
		return response{}, r.broken(err)
	}
	a, err := read(text)
	if err != nil {
		return response{}, r.broken(err)
	}
	return a, r.refusal(a)
}

// run starts the executable with the request on stdin and returns what it writes.
func (r runner) run(ctx context.Context, question []byte) ([]byte, error) {
	r.slots <- struct{}{}
	defer func() { <-r.slots }()
	child := childproc.Child{Path: r.path, Dir: "/", Limits: childproc.Limits{Time: r.limits.Time, Memory: r.limits.Memory, Output: r.limits.Output}}
	a, err := child.Ask(ctx, question)
	switch {
	case errors.Is(err, childproc.ErrLate):
		return nil, fmt.Errorf("it did not respond within %s and was killed", r.limits.Time)
	case errors.Is(err, childproc.ErrLong):
		return nil, fmt.Errorf("it wrote more than %d bytes and was killed", r.limits.Output)
	case err != nil && line(a.Stderr) != "":
		return nil, fmt.Errorf("%w: %s", err, line(a.Stderr))
	}
	return a.Text, err
}

// line returns the beginning of a text, in one line.
func line(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "..."
	}
	return text
}

// scrub removes values of options from a text: the executable may repeat them, and they may
// be credentials.
func (r runner) scrub(text string) string {
	for _, value := range r.options {
		if len(value) >= secret {
			text = strings.ReplaceAll(text, value, "***")
		}
	}
	return text
}
