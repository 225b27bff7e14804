package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/emco-orchestrator/emco/src/api/nearest"
)

// readFile fills c from a file in YAML; an empty path names no file.
func readFile(path string, c *Config) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	if err := checkMembers(path, text, *c); err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text, c); err != nil {
		return fmt.Errorf("configuration file %s: %w", path, err)
	}
	return nil
}

// checkMembers reports all members of the file that are no settings, each with its line and
// the setting that its author probably meant.
func checkMembers(path string, text []byte, c Config) error {
	var doc yaml3.Node
	if err := yaml3.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("configuration file %s: %w", path, err)
	}
	m := memberCheck{path: path, settings: namedSettings(&c)}
	for _, root := range doc.Content {
		m.walk(root, reflect.TypeFor[Config](), "")
	}
	return errors.Join(m.errs...)
}

type memberCheck struct {
	path     string
	settings []namedSetting
	errs     []error
}

// walk compares the members of a mapping with the fields of a struct.
func (m *memberCheck) walk(n *yaml3.Node, t reflect.Type, prefix string) {
	if n.Kind == yaml3.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml3.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			m.walk(value, t, prefix)
			continue
		}
		field, known := member(t, key.Value)
		if !known {
			m.errs = append(m.errs, fmt.Errorf("%s:%d: there is no setting %s%s%s", m.path, key.Line, prefix, key.Value, m.hint(t, prefix, key.Value)))
			continue
		}
		if _, single := field.Tag.Lookup("help"); !single {
			m.walk(value, field.Type, prefix+field.Tag.Get("json")+".")
		}
	}
}

// member finds a field by its name in files; letter case does not count.
func member(t reflect.Type, name string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		if f := t.Field(i); strings.EqualFold(f.Tag.Get("json"), name) {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// hint names the nearest member of the same section, or a setting of that name elsewhere.
func (m *memberCheck) hint(t reflect.Type, prefix, name string) string {
	var siblings []string
	for i := range t.NumField() {
		siblings = append(siblings, t.Field(i).Tag.Get("json"))
	}
	if near, ok := nearest.To(name, siblings); ok {
		return "; did you mean " + prefix + near + "?"
	}
	for _, l := range m.settings {
		if strings.EqualFold(l.name[strings.LastIndex(l.name, ".")+1:], name) {
			return "; did you mean " + l.name + "?"
		}
	}
	return ""
}
