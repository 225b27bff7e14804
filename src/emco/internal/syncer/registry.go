package syncer

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Options are the keys of a cluster's sync objects that its backend reads, with their values.
type Options map[string]string

// Registry holds the backends of a program, by type.
type Registry struct {
	entries map[string]registeredBackend
}

type registeredBackend struct {
	open    func(Options) (Backend, error)
	options reflect.Type
	example Options
}

// rest is the json name of the field of options, a map, for all keys without a field.
const rest = "*"

// NewRegistry returns a registry without backends.
func NewRegistry() *Registry { return &Registry{entries: map[string]registeredBackend{}} }

// Register adds a backend under its type. Its options are a struct O with json tags, whose
// fields are strings or implement encoding.TextUnmarshaler; a field of type
// map[string]string with the name "*" gets all other keys. The contract test and the
// documentation use example. A duplicate name is a bug and panics.
func Register[O any](r *Registry, name string, build func(O) (Backend, error), example Options) {
	if _, taken := r.entries[name]; taken {
		panic("syncer: backend " + name + " is registered twice")
	}
	open := func(given Options) (Backend, error) {
		var o O
		if err := decodeOptions(given, &o); err != nil {
			return nil, errs.E(errs.Invalid, "open", "sync backend "+name, err)
		}
		return build(o)
	}
	r.entries[name] = registeredBackend{open: open, options: reflect.TypeFor[O](), example: example}
}

// decodeOptions decodes pairs strictly: a key without a field in into is an error that
// lists the known keys. No error shows a value.
func decodeOptions[O any](given Options, into *O) error {
	known := optionNames(reflect.TypeFor[O]())
	others := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, key) })
		switch {
		case i < 0 && !slices.Contains(known, rest):
			return fmt.Errorf("option %s is not known; known are %s", key, strings.Join(known, ", "))
		case i < 0:
			others[key] = given[key]
			continue
		}
		if err := decodeInto(into, map[string]string{known[i]: given[key]}); err != nil {
			return fmt.Errorf("option %s: %w", key, err)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return decodeInto(into, map[string]map[string]string{rest: others})
}

// decodeInto sets the fields of into by their json names.
func decodeInto[O, V any](into *O, members map[string]V) error {
	text, err := json.Marshal(members)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// optionNames returns the names in the json tags of a struct, sorted.
func optionNames(options reflect.Type) []string {
	var out []string
	for _, field := range reflect.VisibleFields(options) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && !field.Anonymous {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// OptionsOf returns the type of a backend's options, for documentation; nil if the backend
// is unknown.
func (r *Registry) OptionsOf(name string) reflect.Type { return r.entries[name].options }

// Names returns the types of all backends, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.entries)) }

// Example returns valid options of the backend.
func (r *Registry) Example(name string) Options { return maps.Clone(r.entries[name].example) }

// Open returns the backend of a type, guarded by Owned. Types without a backend and unknown
// options are Invalid. Keep the result: a backend caches content.
func (r *Registry) Open(name string, o Options) (Backend, error) {
	e, ok := r.entries[name]
	if !ok {
		return nil, errs.New(errs.Invalid, fmt.Sprintf("this program has no sync backend %q; use one of %s", name, strings.Join(r.Names(), ", ")))
	}
	b, err := e.open(o)
	if err != nil {
		return nil, err
	}
	return Owned(b), nil
}
