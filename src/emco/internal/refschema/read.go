package refschema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/openapi"
	"github.com/emco-orchestrator/emco/src/emco/internal/schemacheck"
	"github.com/emco-orchestrator/emco/src/emco/internal/upstream"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Bounds of schemas. They are the operator's, so these only catch mistakes.
const (
	maxFiles      = 16
	maxFile       = 256 << 10 // bytes
	maxTypes      = 64        // of all files
	maxReferences = 16        // of a type
	maxNesting    = 4         // types of schemas below each other
)

const (
	cloudPath   = "projects/{project}/logical-clouds/{logicalCloud}"
	clusterPath = "cluster-providers/{clusterProvider}/clusters/{cluster}"
)

// builtIn are the types of EMCO that may be parents or targets of references, with the paths of their documents.
// Their names are upstream's.
var builtIn = map[string]string{
	"project":                "projects/{project}",
	"logicalCloud":           cloudPath,
	"clusterReference":       cloudPath + "/cluster-references/{clusterReference}",
	"compositeAppVersion":    web.CompositeAppPath,
	"app":                    web.CompositeAppPath + "/apps/{app}",
	"compositeProfile":       web.CompositeAppPath + "/composite-profiles/{compositeProfile}",
	"deploymentIntentGroup":  web.GroupPath,
	"genericPlacementIntent": web.GroupPath + "/generic-placement-intents/{genericPlacementIntent}",
	"genericK8sIntent":       web.GroupPath + "/generic-k8s-intents/{genericK8sIntent}",
	"trafficGroupIntent":     web.GroupPath + "/traffic-group-intents/{trafficGroupIntent}",
	"hpaIntent":              web.GroupPath + "/hpa-intents/{hpaIntent}",
	"netControllerIntent":    web.GroupPath + "/network-controller-intent/{netControllerIntent}",
	"sfcIntent":              web.GroupPath + "/network-chains/{sfcIntent}",
	"clusterProvider":        "cluster-providers/{clusterProvider}",
	"clusterSyncObject":      "cluster-providers/{clusterProvider}/cluster-sync-objects/{clusterSyncObject}",
	"cluster":                clusterPath,
	"network":                clusterPath + "/networks/{network}",
	"providerNetwork":        clusterPath + "/provider-networks/{providerNetwork}",
	"controller":             "controllers/{controller}",
}

// BuiltIn returns the types of EMCO that schemas may name, with the paths of their documents below /v2.
func BuiltIn() map[string]string { return maps.Clone(builtIn) }

// Reserved returns the segments of paths that no collection of a schema may have, because EMCO's own paths have them.
func Reserved() map[string]bool {
	out := map[string]bool{}
	add := func(path string) {
		for s := range strings.SplitSeq(path, "/") {
			if s != "" && s[0] != '{' {
				out[s] = true
			}
		}
	}
	for _, r := range upstream.Surface() {
		add(r.Path)
	}
	for operation := range openapi.Actions() {
		_, path, _ := strings.Cut(operation, " ")
		add(path)
	}
	for _, rules := range authz.BuiltIn() {
		for _, r := range rules {
			for _, typ := range r.Types {
				out[typ] = true
			}
		}
	}
	for _, own := range []string{"report-tokens", "tokens"} { // of the platform's administrators only
		out[own] = true
	}
	return out
}

// Read reads schemas. Parents and references may be of other files. It returns the types in order of their paths, and
// reports all that is wrong, one line each, with file, line and field.
func Read(files []string) ([]Type, error) {
	if len(files) > maxFiles {
		return nil, fmt.Errorf("%d files; there may be %d", len(files), maxFiles)
	}
	var all schemaFiles
	for _, file := range files {
		all.readFile(file)
	}
	types := all.types()
	if len(all.faults) > 0 {
		return nil, errors.Join(all.faults...)
	}
	slices.SortFunc(types, func(a, b Type) int { return cmp.Compare(a.Path, b.Path) })
	return types, nil
}

// schemaFiles is what was read of all schema files.
type schemaFiles struct {
	entries []schemaEntry
	faults  []error
}

// schemaEntry is a type as its schema file describes it.
type schemaEntry struct {
	file, field              string
	name, parent, collection numberedLine
	references               []numberedLine
	spec                     *schemacheck.Schema
}

// numberedLine is a text with the number of its line.
type numberedLine struct {
	text string
	at   int
}

func (r *schemaFiles) fail(file string, at int, field, format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("%s:%d: %s: %s", file, at, field, fmt.Sprintf(format, args...)))
}

func (r *schemaFiles) readFile(file string) {
	text, err := contentOf(file)
	if err != nil {
		r.faults = append(r.faults, err)
		return
	}
	var root, second yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	if err := documents.Decode(&root); errors.Is(err, io.EOF) {
		r.faults = append(r.faults, fmt.Errorf("%s: the file is empty; it needs name and resources", file))
		return
	} else if err != nil {
		r.faults = append(r.faults, fmt.Errorf("%s: %w", file, err))
		return
	}
	if err := documents.Decode(&second); !errors.Is(err, io.EOF) {
		r.fail(file, max(second.Line, root.Content[0].Line), "the file", "must have one schema; write the second one into a file of its own")
		return
	}
	f := fileReader{schemaFiles: r, file: file}
	schema := f.object(root.Content[0], "", "name", "resources")
	f.text(schema, root.Content[0], "", "name")
	list := schema["resources"]
	if list == nil || list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		r.fail(file, root.Content[0].Line, "resources", "a list with at least one type is needed")
		return
	}
	for i, n := range list.Content {
		f.entry(n, fmt.Sprintf("resources[%d]", i))
	}
}

// contentOf reads a file within its bound.
func contentOf(file string) ([]byte, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: the file has more than %d bytes", file, maxFile)
	}
	return text, err
}

// fileReader reads the values of one file.
type fileReader struct {
	*schemaFiles
	file string
}

// object returns the members of an object; others than the known ones are errors.
func (f fileReader) object(n *yaml.Node, field string, known ...string) map[string]*yaml.Node {
	out := map[string]*yaml.Node{}
	if n.Kind != yaml.MappingNode {
		f.fail(f.file, n.Line, cmp.Or(field, "the file"), "must be an object with %s", strings.Join(known, ", "))
		return out
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch name := key.Value; {
		case !slices.Contains(known, name):
			f.fail(f.file, key.Line, within(field, name), "there is no such member; there are %s", strings.Join(known, ", "))
		case out[name] != nil:
			f.fail(f.file, key.Line, within(field, name), "given twice")
		default:
			out[name] = n.Content[i+1]
		}
	}
	return out
}

func within(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// text returns a member that must be a text.
func (f fileReader) text(object map[string]*yaml.Node, n *yaml.Node, field, name string) numberedLine {
	member := object[name]
	if member == nil {
		if n.Kind == yaml.MappingNode {
			f.fail(f.file, n.Line, within(field, name), "missing")
		}
		return numberedLine{at: n.Line}
	}
	if member.Kind != yaml.ScalarNode || member.Tag != "!!str" || member.Value == "" {
		f.fail(f.file, member.Line, within(field, name), "must be a text")
		return numberedLine{at: member.Line}
	}
	return numberedLine{member.Value, member.Line}
}

var (
	namePattern       = regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)
	collectionPattern = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	capital           = regexp.MustCompile(`[A-Z]`)
)

// maxTypeName is the longest name of a type.
const maxTypeName = 63

// entry reads a type.
func (f fileReader) entry(n *yaml.Node, field string) {
	o := f.object(n, field, "name", "parent", "collection", "references", "spec")
	e := schemaEntry{file: f.file, field: field, name: f.text(o, n, field, "name"), parent: f.text(o, n, field, "parent")}
	if e.name.text != "" && (len(e.name.text) > maxTypeName || !namePattern.MatchString(e.name.text)) {
		f.fail(f.file, e.name.at, field+".name", "%q is no name of a type: letters and digits that begin with a small letter, such as firewallIntent", e.name.text)
		e.name.text = ""
	}
	e.collection = numberedLine{strings.ToLower(capital.ReplaceAllString(e.name.text, "-$0")) + "s", e.name.at}
	if o["collection"] != nil {
		e.collection = f.text(o, n, field, "collection")
	}
	if c := e.collection.text; c != "" && e.name.text != "" && (!collectionPattern.MatchString(c) || len(c) > 63) {
		f.fail(f.file, e.collection.at, field+".collection", "%q is no part of a path: small letters, digits and '-', such as firewall-intents", c)
	}
	e.references = f.targets(o["references"], field+".references")
	e.spec = f.schema(o["spec"], field+".spec")
	f.entries = append(f.entries, e)
}

// targets reads the references of a type.
func (f fileReader) targets(n *yaml.Node, field string) (out []numberedLine) {
	switch {
	case n == nil:
		return nil
	case n.Kind != yaml.SequenceNode:
		f.fail(f.file, n.Line, field, "must be a list")
		return nil
	case len(n.Content) > maxReferences:
		f.fail(f.file, n.Line, field, "it has %d; there may be %d", len(n.Content), maxReferences)
		return nil
	}
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", field, i)
		o := f.object(item, at, "name", "type")
		if kind := o["type"]; kind != nil && kind.Value != "many" {
			f.fail(f.file, kind.Line, at+".type", "%q is not known; every reference may have many targets, which upstream calls many", kind.Value)
		}
		out = append(out, f.text(o, item, at, "name"))
	}
	return out
}

// schema reads the JSON schema of a spec.
func (f fileReader) schema(n *yaml.Node, field string) *schemacheck.Schema {
	if n == nil {
		return nil
	}
	var value any
	err := n.Decode(&value)
	var text []byte
	if err == nil {
		text, err = json.Marshal(value)
	}
	if err != nil {
		f.fail(f.file, n.Line, field, "it is no JSON schema: %v", err)
		return nil
	}
	s, err := schemacheck.Compile(text)
	if err != nil {
		f.fail(f.file, n.Line, field, "%s", strings.Join(strings.Fields(err.Error()), " "))
	}
	return s
}

// types resolves parents and references.
func (r *schemaFiles) types() []Type {
	if len(r.entries) > maxTypes {
		r.faults = append(r.faults, fmt.Errorf("%s: the schemas register %d types; there may be %d", r.entries[maxTypes].file, len(r.entries), maxTypes))
		return nil
	}
	var sound []schemaEntry // with names of their own
	byName, reserved := map[string]schemaEntry{}, Reserved()
	for _, e := range r.entries {
		if e.name.text == "" {
			continue
		}
		if reserved[e.collection.text] {
			r.fail(e.file, e.collection.at, e.field+".collection", "EMCO's own paths have %q; choose another", e.collection.text)
		}
		if builtIn[e.name.text] != "" || variables()[e.name.text] {
			r.fail(e.file, e.name.at, e.field+".name", "EMCO has a type %s of its own; choose another name", e.name.text)
			continue
		}
		if other, twice := byName[e.name.text]; twice {
			r.fail(e.file, e.name.at, e.field+".name", "%s is registered in %s:%d, too", e.name.text, other.file, other.name.at)
			continue
		}
		byName[e.name.text], sound = e, append(sound, e)
	}
	paths := r.paths(byName)
	var out []Type
	taken := map[string]schemaEntry{}
	for _, e := range sound {
		path := paths[e.name.text]
		if path == "" {
			continue
		}
		t := Type{Name: e.name.text, Path: path, Parent: e.parent.text, spec: e.spec}
		if other, twice := taken[t.Collection()]; twice {
			r.fail(e.file, e.collection.at, e.field+".collection", "%s in %s:%d has it below the same parent", other.name.text, other.file, other.name.at)
		}
		taken[t.Collection()] = e
		for i, to := range e.references {
			if paths[to.text] == "" && to.text != "" {
				r.fail(e.file, to.at, fmt.Sprintf("%s.references[%d].name", e.field, i), "there is no type %q%s", to.text, known(byName))
			}
			t.references = append(t.references, referencedType{to.text, paths[to.text]})
		}
		out = append(out, t)
	}
	return out
}

// paths returns the paths of documents by type, of those of EMCO too.
func (r *schemaFiles) paths(byName map[string]schemaEntry) map[string]string {
	out := BuiltIn()
	for name, e := range byName {
		chain := []schemaEntry{e}
		for {
			last := chain[len(chain)-1]
			above, own := byName[last.parent.text]
			if !own || len(chain) > maxNesting {
				break
			}
			chain = append(chain, above)
		}
		top := chain[len(chain)-1]
		path := builtIn[top.parent.text]
		switch {
		case len(chain) > maxNesting:
			r.fail(e.file, e.parent.at, e.field+".parent", "%s is below more than %d types of schemas, or below itself", name, maxNesting-1)
			continue
		case path == "":
			if len(chain) == 1 && e.parent.text != "" {
				r.fail(e.file, e.parent.at, e.field+".parent", "there is no type %q%s", e.parent.text, known(byName))
			}
			continue
		}
		for _, c := range slices.Backward(chain) {
			path += "/" + c.collection.text + "/{" + c.name.text + "}"
		}
		out[name] = path
	}
	return out
}

// known lists the types that a schema may name.
func known(own map[string]schemaEntry) string {
	names := slices.Sorted(maps.Keys(builtIn))
	return "; there are " + strings.Join(append(slices.Sorted(maps.Keys(own)), names...), ", ")
}

// variables are the variables in EMCO's own paths.
func variables() map[string]bool {
	out := map[string]bool{}
	for _, path := range builtIn {
		for s := range strings.SplitSeq(path, "/") {
			if name, ok := strings.CutPrefix(s, "{"); ok {
				out[strings.TrimSuffix(name, "}")] = true
			}
		}
	}
	return out
}
