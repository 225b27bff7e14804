package customize

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// Fetch is a value of a JSON patch that is read from a URL when a revision is made: the value of
// the operation with an index.
type Fetch struct {
	Operation int
	URL       string
}

// Values reads the values of URLs.
type Values interface {
	// Value returns the value of a URL in JSON. The error is Unavailable if the server may
	// answer later, else Invalid or Forbidden.
	Value(ctx context.Context, url string) (json.RawMessage, error)
}

// Limits of the values that one app reads.
const (
	maxFetches      = 5000
	parallelFetches = 16
)

// Resolve returns edits with the values that their patches fetch. It reads each URL once. Errors
// that users can correct are Invalid and hold a render.Fault.
func Resolve(ctx context.Context, app string, edits []Edit, values Values) ([]Edit, error) {
	origins := map[string]string{} // of URLs: the first edit that names them
	var urls []string
	for _, e := range edits {
		for _, f := range e.fetches() {
			if _, known := origins[f.URL]; !known {
				origins[f.URL] = e.Origin
				urls = append(urls, f.URL)
			}
		}
	}
	if len(urls) == 0 {
		return edits, nil
	}
	fault := func(url, reason string) error {
		return (&render.Fault{App: app, File: origins[url], Reason: reason}).Invalid()
	}
	switch {
	case values == nil:
		return nil, fault(urls[0], "values of URLs are not read here")
	case len(urls) > maxFetches:
		return nil, fault(urls[0], fmt.Sprintf("the app reads values from %d URLs, above the limit of %d", len(urls), maxFetches))
	}
	read := make([]json.RawMessage, len(urls))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelFetches)
	for i, url := range urls {
		g.Go(func() (err error) {
			read[i], err = values.Value(ctx, url)
			if errs.Is(err, errs.Invalid) || errs.Is(err, errs.Forbidden) {
				return fault(url, err.Error())
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	known := make(map[string]json.RawMessage, len(urls))
	for i, url := range urls {
		known[url] = read[i]
	}
	out := slices.Clone(edits)
	for i := range out {
		if len(out[i].fetches()) == 0 {
			continue
		}
		var err error
		if out[i].Patch, err = out[i].Patch.filled(known); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (e Edit) fetches() []Fetch {
	if e.Patch == nil {
		return nil
	}
	return e.Patch.Fetches
}

// filled returns a JSON patch with the values that it fetches.
func (p *Patch) filled(values map[string]json.RawMessage) (*Patch, error) {
	var operations []v2.PatchOperation
	if err := json.Unmarshal(p.Text, &operations); err != nil {
		return nil, errs.E(errs.Internal, "read", "patch of "+p.Target.String(), err)
	}
	for _, f := range p.Fetches {
		operations[f.Operation].Value = v2.PatchValue(values[f.URL])
	}
	text, err := json.Marshal(operations)
	return &Patch{Target: p.Target, Type: p.Type, Text: text}, err
}
