package config

import (
	"encoding"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

//go:generate go test -count=1 -run ^TestTheChartsSchemaHasAllSettings$ . -args -update

var update = flag.Bool("update", false, "write the schema of the chart")

// chartOwns are the settings that the chart itself sets, and how a user sets them there.
var chartOwns = map[string]string{
	"data": "the chart sets it", "target": "replicas sets it", "etcd": "the value etcd sets it",
	"http.address": "the chart sets it", "grpc.address": "the chart sets it", "ops": "the chart sets it",
}

// chartLimits are members of the schema of a setting besides its type and help.
var chartLimits = map[string]map[string]any{
	"auth.mode":           {"enum": []any{"", "on", "off"}, "description": "in quotes: on without them is true"},
	"auth.fourEyes":       {"items": map[string]any{"type": "string", "pattern": `^(\*|[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)$`}},
	"http.trustedProxies": {"items": map[string]any{"type": "string", "pattern": `^[0-9A-Fa-f:.]+(%[^/]+)?(/[0-9]+)?$`}},
	"http.tls":            {"enum": []any{"", tlsTerminated}},
	"audit.mode":          {"enum": []any{"", AuditStrict, AuditRelaxed, AuditOff}},
	"log.level":           {"enum": []any{"debug", "info", "warn", "error"}},
	"log.format":          {"enum": []any{"json", "text"}},
}

// The schema of the chart of the control plane has each setting with its type and its help, so that Helm refuses a misspelt
// or wrong one before pods start.
func TestTheChartsSchemaHasAllSettings(t *testing.T) {
	t.Parallel()
	const path, before, after = "../../../../deployments/helm/emco/values.schema.json", "\n    \"config\": ", ",\n    \"sealingKey\": "
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), before)
	_, tail, ended := strings.Cut(rest, after)
	if !found || !ended {
		t.Fatalf("%s has no %q before %q", path, before, after)
	}
	schema, err := json.MarshalIndent(chartSchema(reflect.TypeFor[Config](), ""), "    ", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := head + before + string(schema) + after + tail
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s does not have the settings of emco: run make gen", path)
	}
}

// chartSchema returns the JSON schema of a section of the configuration.
func chartSchema(section reflect.Type, prefix string) map[string]any {
	members := map[string]any{}
	for i := range section.NumField() {
		f := section.Field(i)
		name := f.Tag.Get("json")
		help, single := f.Tag.Lookup("help")
		switch full := prefix + name; {
		case chartOwns[full] != "":
			members[name] = map[string]any{"not": map[string]any{}, "description": chartOwns[full]}
		case f.Type.Kind() == reflect.Struct:
			members[name] = chartSchema(f.Type, full+".")
		default:
			leaf := settingSchema(f.Type)
			if single {
				leaf["description"] = help
			}
			maps.Copy(leaf, chartLimits[full])
			members[name] = leaf
		}
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": members}
}

// settingSchema returns the JSON schema of a type of settings.
func settingSchema(of reflect.Type) map[string]any {
	switch {
	case of == reflect.TypeFor[Share]():
		return map[string]any{"type": []any{"number", "string"}}
	case of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct:
		return map[string]any{"type": "array", "items": chartSchema(of.Elem(), "")}
	case of.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	case reflect.PointerTo(of).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) || of.Kind() == reflect.String:
		return map[string]any{"type": "string"}
	case of.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case slices.Contains([]reflect.Kind{reflect.Int, reflect.Int64}, of.Kind()):
		return map[string]any{"type": "integer"}
	}
	panic("a setting of the type " + of.String() + " has no schema")
}
