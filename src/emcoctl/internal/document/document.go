// Package document reads documents in YAML or JSON from files, folders and the standard input: it expands templates,
// splits streams into documents, finds keys that the kind of a document does not have, and builds the JSON body of each.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
)

// Position is the position of a document in a file. The zero value is the command line.
type Position struct {
	File string // as the user named it; "-" is the standard input
	Line int    // counted from 1
}

// String returns "file:line", or "command line".
func (p Position) String() string {
	if p.File == "" {
		return "command line"
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}

// Document is one document of a file.
type Document struct {
	Anchor string
	Names  anchor.Names
	Body   []byte   // JSON: metadata, clusterLabel, spec
	File   string   // the path of the file to send with it, if any
	Files  []string // the paths of several files; used only if File is empty
	At     Position
}

// ParseResult is the documents of a file, with warnings for the user.
type ParseResult struct {
	Documents []Document
	Warnings  []string
	Unknown   []string // warnings of keys that the documents' kinds do not have
}

// yamlDocument is a document as written. Keys match exactly, as in upstream's client.
type yamlDocument struct {
	Version  yaml.Node `yaml:"version"`
	Resource struct {
		Anchor string `yaml:"anchor"`
	} `yaml:"resourceContext"`
	Metadata documentMetadata `yaml:"metadata"`
	Spec     Values           `yaml:"spec"`
	File     string           `yaml:"file"`
	Files    []string         `yaml:"files"`
	Label    string           `yaml:"clusterLabel"`
}

// documentMetadata has the members that upstream EMCO knows; others are dropped. An empty name is sent too,
// so that the server can report it.
type documentMetadata struct {
	Name        string `yaml:"name" json:"name"`
	Description string `yaml:"description" json:"description,omitempty"`
	UserData1   string `yaml:"userData1" json:"userData1,omitempty"`
	UserData2   string `yaml:"userData2" json:"userData2,omitempty"`
}

// Parse splits a stream into its documents. It drops empty documents; it ignores unknown
// keys, as upstream EMCO does, with a warning. The error is Malformed and names file and line.
func Parse(file string, text []byte) (ParseResult, error) { return Expanded{Text: text}.parse(file) }

// parse splits the output of a template; lines are those of the template.
func (e Expanded) parse(file string) (ParseResult, error) {
	var out ParseResult
	dec := yaml.NewDecoder(bytes.NewReader(e.Text))
	for {
		var node yaml.Node
		err := dec.Decode(&node)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return ParseResult{}, e.malformed(Position{file, e.lines.of(min(lineOf(err), e.length()))}, err)
		}
		if empty(&node) {
			continue
		}
		e.lines.relocate(&node)
		doc, at, err := read(file, &node)
		if err != nil {
			return ParseResult{}, e.malformed(at, err)
		}
		out.Documents = append(out.Documents, doc)
		if version := versionOf(&node); version != "" && version != knownVersion {
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s: version %s is read as %s, the only one there is", doc.At, version, knownVersion))
		}
		out.Unknown = append(out.Unknown, unknownMembers(doc.At, doc.Anchor, &node)...)
	}
}

// length returns the number of lines: an error at the end of the text is in the last one.
func (e Expanded) length() int { return 1 + bytes.Count(bytes.TrimRight(e.Text, "\n"), []byte("\n")) }

// knownVersion is the version of upstream's documents. Its client reads documents of any version alike.
const knownVersion = "emco/v2"

// versionOf returns the version that a document names; empty if there is none.
func versionOf(node *yaml.Node) string {
	var d struct {
		Version string `yaml:"version"`
	}
	_ = node.Decode(&d) // what else is wrong with the document is reported elsewhere
	return d.Version
}

// kubernetesKind returns the kind of an object of Kubernetes; empty for anything else.
func kubernetesKind(node *yaml.Node) string {
	var o struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
	}
	if node.Decode(&o) != nil || o.APIVersion == "" {
		return ""
	}
	return o.Kind
}

// empty reports whether a document is empty, as between two lines of dashes or after the
// last. Upstream's client would send it to an empty anchor.
func empty(node *yaml.Node) bool {
	if len(node.Content) == 0 {
		return true
	}
	top := node.Content[0]
	return top.Kind == yaml.ScalarNode && top.Tag == "!!null"
}

// read converts one YAML document. An error is about what stands at the position.
func read(file string, node *yaml.Node) (Document, Position, error) {
	at := Position{file, node.Content[0].Line}
	if node.Content[0].Kind == yaml.SequenceNode {
		return Document{}, at, errors.New("this is a list, as emcoctl get prints it, and no document; emcoctl dump ANCHOR prints documents in the form of apply")
	}
	var r yamlDocument
	if err := node.Decode(&r); err != nil {
		if line := lineOf(err); line > 0 {
			at.Line = line
		}
		return Document{}, at, err
	}
	if r.Resource.Anchor == "" {
		if kind := kubernetesKind(node); kind != "" {
			return Document{}, at, fmt.Errorf("this is a Kubernetes %s and no EMCO document; put it into the templates of a Helm chart, and apply the chart as an app (emcoctl explain apps)", kind)
		}
	}
	body, err := r.body()
	if err != nil {
		return Document{}, at, err
	}
	doc := Document{
		Anchor: r.Resource.Anchor,
		Names:  anchor.Names{Name: r.Metadata.Name, Label: r.Label},
		Body:   body,
		File:   r.File,
		Files:  r.Files,
		At:     at,
	}
	if version, ok := r.Spec["compositeAppVersion"]; ok && version != nil {
		doc.Names.Version = fmt.Sprint(version)
	}
	return doc, at, nil
}

// malformed returns an error that says whether the file is the reason or what it expands to.
func (e Expanded) malformed(at Position, err error) error {
	if len(e.lines) > 0 {
		err = fmt.Errorf("%w (in what the template expands to)", err)
	}
	return malformed(at, err)
}

// body builds the JSON in upstream's order: metadata always, the others if not empty.
func (r yamlDocument) body() ([]byte, error) {
	spec, err := stringKeys(r.Spec, 0)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Metadata documentMetadata `json:"metadata"`
		Label    string           `json:"clusterLabel,omitempty"`
		Spec     value            `json:"spec,omitempty"`
	}{r.Metadata, r.Label, spec})
}

// maxDepth bounds how deeply a spec may nest.
const maxDepth = 100

// stringKeys converts a YAML value for JSON: keys in YAML may be of any type. An empty map
// at the top becomes nil, so that it is omitted.
func stringKeys(v value, depth int) (value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("spec nests deeper than %d levels", maxDepth)
	}
	switch v := v.(type) {
	case Values:
		if len(v) == 0 && depth == 0 {
			return nil, nil
		}
		return convert(v, depth)
	case map[value]value:
		return convert(v, depth)
	case []value:
		list := make([]value, len(v))
		for i := range v {
			item, err := stringKeys(v[i], depth+1)
			if err != nil {
				return nil, err
			}
			list[i] = item
		}
		return list, nil
	}
	return v, nil
}

// convert makes the keys of a map strings, and converts its values.
func convert[K comparable](in map[K]value, depth int) (Values, error) {
	out := make(Values, len(in))
	for key, item := range in {
		v, err := stringKeys(item, depth+1)
		if err != nil {
			return nil, err
		}
		out[fmt.Sprint(key)] = v
	}
	return out, nil
}

// yamlLine finds the line in errors of the YAML decoder, which have no field for it.
var yamlLine = regexp.MustCompile(`line (\d+): `)

// fromZero matches the errors of the decoder's parser, which count lines from 0; those of its scanner count from 1.
var fromZero = regexp.MustCompile(`line \d+: did not find expected (key|node content|'-' indicator|',' or '[\]}]'|<document start>|<stream-start>)`)

// lineOf finds the line in an error of the YAML decoder, 0 if it names none.
func lineOf(fault error) int {
	m := yamlLine.FindStringSubmatch(fault.Error())
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	if fromZero.MatchString(fault.Error()) {
		n++
	}
	return n
}

// malformed returns an error that begins with the position, without the decoder's prefixes.
func malformed(at Position, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.TrimPrefix(text, "unmarshal errors:\n  ")
	text = yamlLine.ReplaceAllString(text, "")
	return errs.E(errs.Malformed, "", at.String(), errors.New(text))
}
