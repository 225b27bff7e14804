// Package openapi describes the routes of the program as an OpenAPI 3.1 document. Routes of
// documents describe themselves (resource.Described); Actions describes all others. Pages serves it.
package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gorilla/mux"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Document is an OpenAPI document.
type Document struct {
	OpenAPI    string              `json:"openapi"`
	Info       Info                `json:"info"`
	Servers    []Server            `json:"servers"`
	Paths      map[string]PathItem `json:"paths"`
	Components Components          `json:"components"`
}

// Info names the API.
type Info struct {
	Title   string `json:"title"`
	Version string `json:"version"`
}

// Server is an address, relative to the document.
type Server struct {
	URL string `json:"url"`
}

// PathItem is the operations of a path, by method in lower case.
type PathItem map[string]*Operation

// Components are what operations refer to.
type Components struct {
	Schemas map[string]*Schema `json:"schemas"`
}

// Operation is one method of a path.
type Operation struct {
	ID          string              `json:"operationId"`
	Summary     string              `json:"summary"`
	Tags        []string            `json:"tags"`
	Parameters  []Parameter         `json:"parameters,omitempty"`
	RequestBody *Body               `json:"requestBody,omitempty"`
	Responses   map[string]Response `json:"responses"` // by status
}

// Parameter is a part of the path, or of the query.
type Parameter struct {
	Name     string  `json:"name"`
	In       string  `json:"in"`
	Required bool    `json:"required,omitempty"`
	Schema   *Schema `json:"schema"`
}

// Body is what a request carries, by media type.
type Body struct {
	Content map[string]Media `json:"content"`
}

// Media is the form of a content.
type Media struct {
	Schema *Schema `json:"schema,omitempty"`
}

// Response is the answer with a status.
type Response struct {
	Description string           `json:"description"`
	Content     map[string]Media `json:"content,omitempty"`
}

// Schema is the form of a value.
type Schema struct {
	Ref        string             `json:"$ref,omitempty"`
	Type       string             `json:"type,omitempty"`
	Format     string             `json:"format,omitempty"`
	Properties map[string]*Schema `json:"properties,omitempty"`
	Items      *Schema            `json:"items,omitempty"`
	Additional *Schema            `json:"additionalProperties,omitempty"`
}

const (
	jsonType    = "application/json"
	problemType = "application/problem+json"
	formType    = "multipart/form-data"
)

// Of describes the routes of a router. The error names a route that nothing describes.
func Of(router *mux.Router, version string) (*Document, error) {
	d := &Document{
		OpenAPI: "3.1.0", Info: Info{Title: "EMCO", Version: version}, Servers: []Server{{URL: "/"}},
		Paths: map[string]PathItem{}, Components: Components{Schemas: map[string]*Schema{"Problem": problemSchema()}},
	}
	actions := Actions()
	err := router.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		template := web.Template(route)
		if strings.HasSuffix(template, "/") { // upstream's second form of a query
			return nil
		}
		methods, err := route.GetMethods()
		if err != nil {
			return err
		}
		for _, method := range methods {
			if err := d.add(method, template, route.GetHandler(), actions); err != nil {
				return err
			}
		}
		return nil
	})
	return d, err
}

// add describes one route.
func (d *Document) add(method, template string, h http.Handler, actions map[string]Action) error {
	var op *Operation
	if described, ok := h.(resource.Described); ok {
		op = d.document(method, template, described.Describe())
	} else if a, ok := actions[method+" "+template]; ok {
		op = action(method, a)
	} else {
		return fmt.Errorf("nothing describes %s %s", method, template)
	}
	op.ID, op.Tags = operationID(method, template), []string{tag(template)}
	op.Parameters = append(pathParameters(template), op.Parameters...)
	if d.Paths[template] == nil {
		d.Paths[template] = PathItem{}
	}
	d.Paths[template][strings.ToLower(method)] = op
	return nil
}

// document describes a route of a resource.
func (d *Document) document(method, template string, r resource.Description) *Operation {
	d.Components.Schemas[r.Document] = object(r.Members)
	ref := &Schema{Ref: "#/components/schemas/" + r.Document}
	op := &Operation{Responses: map[string]Response{}}
	good, content := http.StatusOK, map[string]Media{jsonType: {ref}}
	refusals := []int{http.StatusBadRequest}
	switch {
	case method == http.MethodPost:
		op.Summary, good = "create "+r.Kind, http.StatusCreated
		op.Parameters, op.RequestBody = query("strict", "dryRun"), body(r, ref)
		refusals = append(refusals, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity)
		if r.Explicit {
			refusals = append(refusals, http.StatusNotFound)
		}
		if r.Forbids != "" {
			refusals = append(refusals, http.StatusForbidden)
		}
	case method == http.MethodPut:
		op.Summary = "replace or create " + r.Kind
		op.Parameters, op.RequestBody = query("strict", "dryRun"), body(r, ref)
		refusals = append(refusals, http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity)
		if r.Guarded || r.Needs || !r.Root && !r.Explicit {
			refusals = append(refusals, http.StatusConflict)
		}
		switch r.Put {
		case resource.PutCreated:
			good = http.StatusCreated
		case resource.PutUpsert:
			op.answer(http.StatusCreated, content)
		}
		if r.Explicit {
			refusals = append(refusals, http.StatusNotFound)
		}
		if r.Forbids != "" {
			refusals = append(refusals, http.StatusForbidden)
		}
	case method == http.MethodDelete && template == "/v2/"+r.Collection:
		op.Summary, good, content = "delete all documents of "+r.Kind, http.StatusNoContent, nil
		op.Parameters = query("dryRun")
		refusals = append(refusals, http.StatusNotFound, http.StatusConflict)
	case method == http.MethodDelete:
		op.Summary, good, content = "delete "+r.Kind, http.StatusNoContent, nil
		if r.AtItem {
			good = http.StatusOK
		}
		op.Parameters = query("dryRun")
		refusals = append(refusals, http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed)
	case template == "/v2/"+r.Collection:
		op.Summary = "list " + r.Kind
		op.Parameters = query(append([]string{"limit", "continue"}, r.Queries...)...)
		content = map[string]Media{jsonType: {&Schema{Type: "array", Items: ref}}}
		if r.Shaped || len(r.Queries) > 0 {
			content = map[string]Media{jsonType: {}}
		}
		if !r.Root || len(r.Queries) > 0 {
			refusals = append(refusals, http.StatusNotFound)
		}
	default:
		op.Summary, op.Parameters = "read "+r.Kind, query(r.OnItem...)
		op.answer(http.StatusNotModified, nil)
		refusals = append(refusals, http.StatusNotFound)
		if r.File {
			refusals = append(refusals, http.StatusNotAcceptable)
			content = map[string]Media{jsonType: {ref}, "application/octet-stream": {}, formType: {}}
		}
	}
	op.answer(good, content)
	for _, status := range refusals {
		op.answer(status, nil)
	}
	return op
}

// body is the request with a document.
func body(r resource.Description, ref *Schema) *Body {
	out := &Body{Content: map[string]Media{}}
	if !r.File || r.Optional {
		out.Content[jsonType] = Media{ref}
	}
	if r.File {
		out.Content[formType] = Media{&Schema{Type: "object", Properties: map[string]*Schema{
			"metadata": ref, "file": {Type: "string", Format: "binary"},
		}}}
	}
	return out
}

var (
	queryName  = regexp.MustCompile("`([A-Za-z]+)[=`]")
	statusText = regexp.MustCompile(`\b[1-5][0-9][0-9]\b`)
)

// action describes a route that is no document.
func action(method string, a Action) *Operation {
	op := &Operation{Summary: withoutLinks(a.What), Responses: map[string]Response{}}
	for _, m := range queryName.FindAllStringSubmatch(a.Parameters, -1) {
		op.Parameters = append(op.Parameters, query(m[1])...)
	}
	if method == http.MethodPost && a.Body != "" {
		op.RequestBody = &Body{Content: map[string]Media{jsonType: {}}}
	}
	for _, text := range statusText.FindAllString(a.Answers, -1) {
		if status, err := strconv.Atoi(text); err == nil {
			op.answer(status, nil)
		}
	}
	return op
}

// answer adds a status.
func (op *Operation) answer(status int, content map[string]Media) {
	if status >= http.StatusBadRequest {
		content = map[string]Media{problemType: {&Schema{Ref: "#/components/schemas/Problem"}}, "text/plain": {}}
	}
	op.Responses[strconv.Itoa(status)] = Response{Description: http.StatusText(status), Content: content}
}

func query(names ...string) (out []Parameter) {
	for _, name := range names {
		out = append(out, Parameter{Name: name, In: "query", Schema: &Schema{Type: "string"}})
	}
	return out
}

var variable = regexp.MustCompile(`\{([^}]+)\}`)

func pathParameters(template string) (out []Parameter) {
	for _, m := range variable.FindAllStringSubmatch(template, -1) {
		out = append(out, Parameter{Name: m[1], In: "path", Required: true, Schema: &Schema{Type: "string"}})
	}
	return out
}

var separators = regexp.MustCompile(`[^A-Za-z0-9]+`)

// operationID is unique: every part of the path is in it.
func operationID(method, template string) string {
	id := strings.ToLower(method)
	for _, word := range separators.Split(strings.TrimPrefix(template, "/v2/"), -1) {
		if word != "" {
			id += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return id
}

// tag groups operations: by the last collection that the path names.
func tag(template string) string {
	parts := slices.DeleteFunc(strings.Split(strings.TrimPrefix(template, "/v2/"), "/"), func(p string) bool { return strings.HasPrefix(p, "{") })
	if parts[0] == "views" || parts[0] == "git" {
		return parts[0]
	}
	return parts[len(parts)-1]
}

// object is the schema of a document. Unknown members are allowed: the server drops them.
func object(members []v2.Member) *Schema {
	s := &Schema{Type: "object", Properties: map[string]*Schema{}}
	for _, m := range members {
		s.Properties[m.Name] = value(m.Type, m.Members)
	}
	return s
}

// value is the schema of a type in the words of v2.Member.
func value(kind string, members []v2.Member) *Schema {
	if of, ok := strings.CutPrefix(kind, "list of "); ok {
		return &Schema{Type: "array", Items: value(singular(of), members)}
	}
	if of, ok := strings.CutPrefix(kind, "map of "); ok {
		return &Schema{Type: "object", Additional: value(singular(of), members)}
	}
	switch kind {
	case "object":
		return object(members)
	case "string", "boolean", "number":
		return &Schema{Type: kind}
	}
	return &Schema{} // any value
}

// singular is the type of one of many: of "strings", or of "maps of strings".
func singular(plural string) string {
	word, rest, more := strings.Cut(plural, " of ")
	word = strings.TrimSuffix(word, "s")
	if more {
		return word + " of " + rest
	}
	return word
}

func problemSchema() *Schema {
	s := &Schema{Type: "object", Properties: map[string]*Schema{"status": {Type: "number"}}}
	for _, name := range []string{"type", "title", "detail", "instance", "requestId"} {
		s.Properties[name] = &Schema{Type: "string"}
	}
	return s
}

var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

func withoutLinks(text string) string { return link.ReplaceAllString(text, "$1") }

// JSON returns the document as text.
func (d *Document) JSON() ([]byte, error) { return json.MarshalIndent(d, "", " ") }
