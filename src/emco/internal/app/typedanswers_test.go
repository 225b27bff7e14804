package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"slices"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/rest"
)

// typedAnswers are the types that package rest reads answers into.
type typedAnswers struct {
	routes map[string]rest.Operation // by method and path
	done   map[typedAnswer]bool
}

// typedAnswer is one type of a route's answers.
type typedAnswer struct {
	route string
	as    reflect.Type
}

func newTypedAnswers() typedAnswers {
	a := typedAnswers{map[string]rest.Operation{}, map[typedAnswer]bool{}}
	for _, route := range rest.All() {
		for _, op := range route.Operations() {
			a.routes[op.Method+" /v2/"+op.Path] = op
		}
	}
	return a
}

// typeOf returns the type of a route's answers to a query; nil without one.
func (a typedAnswers) typeOf(route string, query url.Values) reflect.Type {
	if op, ok := a.routes[route]; ok {
		return op.Answer(query)
	}
	return nil
}

// read reads an answer into its type, which must have all members of the answer.
func (a typedAnswers) read(route string, query url.Values, text []byte) error {
	as := a.typeOf(route, query)
	if as == nil {
		return nil
	}
	out := reflect.New(as)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(out.Interface()); err != nil {
		return fmt.Errorf("package rest reads it into %s: %w", as, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("something follows what package rest reads into %s", as)
	}
	a.done[typedAnswer{route, as}] = true
	return nil
}

// unread lists the types that no answer was read into.
func (a typedAnswers) unread() (all []string) {
	for route, op := range a.routes {
		for _, query := range []url.Values{{}, {"dryRun": {"true"}}, {"dryRun": {"true"}, "output": {"classes"}}} {
			as := op.Answer(query)
			if as == nil || as == reflect.TypeFor[client.NoContent]() || as.Kind() == reflect.Int64 || a.done[typedAnswer{route, as}] {
				continue
			}
			all = append(all, route+" "+as.String())
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// A type that does not fit an answer is found.
func TestAnswersOfOtherTypesAreFound(t *testing.T) {
	t.Parallel()
	a := newTypedAnswers()
	const update = "POST " + groupRoute + "/update"
	for _, c := range []struct {
		route, query, text string
		ok                 bool
	}{
		{"GET /v2/projects", "", `[{"metadata":{"name":"p"}}]`, true},
		{"GET /v2/projects", "", `{"metadata":{"name":"p"}}`, false},
		{"GET /v2/projects/{project}", "", `{"metadata":{"name":"p"},"state":"x"}`, false},
		{update, "", "3\n", true},
		{update, "dryRun=true", `{"plan":"sha256:1","apps":[{"name":"web","classes":[{"id":"c1-1"}]}]}`, false},
		{update, "dryRun=true&output=classes", `{"plan":"sha256:1","apps":[{"name":"web","classes":[{"id":"c1-1"}]}]}`, true},
	} {
		query, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.read(c.route, query, []byte(c.text)); (err == nil) != c.ok {
			t.Errorf("%s?%s answered %s: %v, want that it fits: %v", c.route, c.query, c.text, err, c.ok)
		}
	}
}
