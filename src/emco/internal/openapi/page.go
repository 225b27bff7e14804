package openapi

import (
	"bytes"
	_ "embed"
	"html/template"
	"maps"
	"slices"
	"strings"
)

// pageText needs nothing from elsewhere: no script, no font, no picture.
//
//go:embed page.html
var pageText string

// pageOperation is an operation of the page.
type pageOperation struct {
	Method, Path string
	*Operation
	Statuses []string
}

// pageGroup is the operations of a tag.
type pageGroup struct {
	Tag     string
	Entries []pageOperation
}

// Page returns the document as a page for people.
func (d *Document) Page() ([]byte, error) {
	page, err := template.New("page").Parse(pageText)
	if err != nil {
		return nil, err
	}
	byTag := map[string][]pageOperation{}
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			e := pageOperation{strings.ToUpper(method), path, d.Paths[path][method], nil}
			for _, status := range slices.Sorted(maps.Keys(e.Responses)) {
				e.Statuses = append(e.Statuses, status+" "+e.Responses[status].Description)
			}
			byTag[e.Tags[0]] = append(byTag[e.Tags[0]], e)
		}
	}
	var groups []pageGroup
	for _, tag := range slices.Sorted(maps.Keys(byTag)) {
		groups = append(groups, pageGroup{tag, byTag[tag]})
	}
	var text bytes.Buffer
	err = page.Execute(&text, struct {
		*Document
		Groups []pageGroup
	}{d, groups})
	return text.Bytes(), err
}
