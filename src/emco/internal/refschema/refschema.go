// Package refschema reads referential schemas: files that register types of documents, with their parents and
// references. EMCO keeps such documents for controllers that are no part of it.
package refschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/schemacheck"
)

// maxTargets bounds the documents that one document refers to.
const maxTargets = 1000

// Type is a registered type of documents.
type Type struct {
	Name   string // "firewallIntent": the variable in paths, and what types below it call their parent
	Path   string // of a document below /v2: "projects/{project}/firewall-intents/{firewallIntent}"
	Parent string // the name of the parent's type

	references []referencedType
	spec       *schemacheck.Schema // nil: anything
}

// referencedType is a type that documents refer to.
type referencedType struct{ name, path string }

// Collection is the path of the documents' collection below /v2.
func (t Type) Collection() string { return t.Path[:strings.LastIndexByte(t.Path, '/')] }

// Item is the last part of the path, with its variable.
func (t Type) Item() string { return t.Path[strings.LastIndexByte(t.Path, '/')+1:] }

// Kind is the name of the type in messages.
func (t Type) Kind() string { return kindOf(t.Name) }

// ParentKind is the name of the parent's type in messages.
func (t Type) ParentKind() string { return kindOf(t.Parent) }

// kindOf returns the name of a type in messages: "FirewallIntent".
func kindOf(name string) string {
	if name == "compositeAppVersion" { // as EMCO's own answers call it
		name = "compositeApp"
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// Check compares the spec of a document with the schema of its type, and reads its references. vars are the names in
// the path of the document. The error is Invalid.
func (t Type) Check(spec json.RawMessage, vars map[string]string) error {
	var bad []string
	if t.spec != nil {
		value, err := decode(spec)
		if err != nil {
			return err
		}
		for _, fault := range t.spec.Faults(value) {
			bad = append(bad, "- spec: "+fault)
		}
	}
	if _, err := t.References(spec, vars); err != nil {
		bad = append(bad, "- "+err.Error())
	}
	if len(bad) == 0 {
		return nil
	}
	const most = 50
	if len(bad) > most {
		bad = append(bad[:most], "- and more")
	}
	return errs.New(errs.Invalid, "Invalid Input:\n"+strings.Join(bad, "\n"))
}

// References returns the paths of the documents, below /v2, that a document refers to, sorted. Any object in spec that
// has the name of a type as a member refers to a document of it: the other names in that document's path are in the same object,
// in an object around it, or in vars.
func (t Type) References(spec json.RawMessage, vars map[string]string) ([]string, error) {
	if len(t.references) == 0 {
		return nil, nil
	}
	value, err := decode(spec)
	if err != nil {
		return nil, err
	}
	c := referenceCollector{targets: t.references, vars: vars, found: map[string]bool{}}
	if err := c.collect(value); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(c.found)), nil
}

// decode reads a spec; none is an empty object.
func decode(spec json.RawMessage) (any, error) {
	if len(spec) == 0 {
		return map[string]any{}, nil
	}
	var value any
	d := json.NewDecoder(bytes.NewReader(spec))
	d.UseNumber()
	err := d.Decode(&value)
	return value, err
}

// referenceCollector finds references in a spec.
type referenceCollector struct {
	targets []referencedType
	vars    map[string]string
	around  []map[string]any // the objects that the value is in, the outermost first
	place   []string         // the way to the value: ".from", "[1]"
	found   map[string]bool
}

func (c *referenceCollector) collect(value any) error {
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			if err := c.within("["+strconv.Itoa(i)+"]", item); err != nil {
				return err
			}
		}
	case map[string]any:
		c.around = append(c.around, v)
		for _, to := range c.targets {
			if err := c.refer(v, to); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := c.within("."+name, v[name]); err != nil {
				return err
			}
		}
		c.around = c.around[:len(c.around)-1]
	}
	return nil
}

// within collects from a value below the present one.
func (c *referenceCollector) within(step string, value any) error {
	c.place = append(c.place, step)
	if err := c.collect(value); err != nil {
		return err
	}
	c.place = c.place[:len(c.place)-1]
	return nil
}

// refer adds the document that an object refers to, if it does.
func (c *referenceCollector) refer(object map[string]any, to referencedType) error {
	if name, ok := object[to.name].(string); !ok || name == "" {
		return nil
	}
	segments := strings.Split(to.path, "/")
	for i, s := range segments {
		variable, ok := strings.CutPrefix(s, "{")
		if !ok {
			continue
		}
		variable = strings.TrimSuffix(variable, "}")
		name := c.lookup(variable)
		switch {
		case name == "":
			return c.fault("%s needs %s beside it", to.name, variable)
		case !v2.ValidName(name):
			return c.fault("%s is no name: letters, digits, '-', '_' and '.' only", variable)
		}
		segments[i] = name
	}
	if c.found[strings.Join(segments, "/")] = true; len(c.found) > maxTargets {
		return c.fault("it refers to more than %d documents", maxTargets)
	}
	return nil
}

// fault returns what is wrong with the present value.
func (c *referenceCollector) fault(format string, args ...any) error {
	return fmt.Errorf("spec%s: %s", strings.Join(c.place, ""), fmt.Sprintf(format, args...))
}

// lookup returns the value of a variable, of the innermost object that has it.
func (c *referenceCollector) lookup(variable string) string {
	for _, object := range slices.Backward(c.around) {
		if name, ok := object[variable].(string); ok && name != "" {
			return name
		}
	}
	return c.vars[variable]
}
