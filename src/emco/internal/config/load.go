package config

import (
	"errors"
	"flag"
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/emco-orchestrator/emco/src/api/nearest"
)

// Load fills a Config from its defaults, the file that -config or EMCO_CONFIG names,
// variables in the form of os.Environ, and args, and validates it. Unknown settings in the file and in flags are errors. It calls warn for
// each variable with a former name, and for each that looks like a setting and is none. It returns flag.ErrHelp after it has printed
// the help to fs's output.
func Load(fs *flag.FlagSet, args, variables []string, warn func(string)) (Config, error) {
	c, env := Default(), environmentOf(variables)
	leaves := namedSettings(&c)
	set := map[string]string{} // flags given, applied after file and environment
	for _, l := range leaves {
		if l.fileOnly() {
			continue
		}
		take := func(v string) error { set[l.name] = v; return l.check(v) }
		if l.val.Kind() == reflect.Bool {
			fs.BoolFunc(l.name, l.usage(), take) // the flag alone is "true"
		} else {
			fs.Func(l.name, l.usage(), take)
		}
	}
	file := env["EMCO_CONFIG"]
	fs.StringVar(&file, "config", file, "configuration file in YAML (EMCO_CONFIG)")
	if err := fs.Parse(args); err != nil {
		return c, unknownFlag(fs, err)
	}
	if fs.NArg() > 0 {
		return c, unexpected(fs.Arg(0))
	}
	inFile, err := readFile(file, &c)
	if err != nil {
		return c, err
	}
	errs := inFile.errs
	for _, l := range leaves {
		if l.fileOnly() {
			continue
		}
		overridden, err := l.override(env, set, warn)
		if overridden {
			delete(inFile.places, l.name)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	env.warnOfUnknown(leaves, c.Encryption.KEK, warn)
	return c, errors.Join(append(errs, c.validate(inFile.places)...)...)
}

// unknownFlag adds to the error for a flag that is not there the flag that was probably meant.
func unknownFlag(fs *flag.FlagSet, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return err
	}
	c := Default()
	for _, l := range namedSettings(&c) {
		if l.fileOnly() && strings.EqualFold(l.name, name) {
			return fmt.Errorf("there is no flag -%s: only the configuration file has %s", name, l.name)
		}
	}
	var names []string
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	near, found := nearest.To(name, names)
	for _, n := range names {
		if !found && strings.EqualFold(lastPart(n), name) {
			near, found = n, true
		}
	}
	if found {
		return fmt.Errorf("there is no flag -%s; did you mean -%s?", name, near)
	}
	return fmt.Errorf("there is no flag -%s", name)
}

// unexpected is the error for an argument that is no flag.
func unexpected(arg string) error {
	if _, err := parseBool(arg); err == nil {
		return fmt.Errorf("unexpected argument %q; write a flag's value as -name=value if it is true or false", arg)
	}
	return fmt.Errorf("unexpected argument %q", arg)
}

// InForce returns c with the values that hold for settings whose empty value depends on other settings.
func (c Config) InForce() Config {
	c.Auth.Mode, c.Audit.Mode, c.HTTP.Linger = c.authMode(), c.AuditMode(), Duration(c.HTTP.LingerTime())
	return c
}

// Print writes c as YAML with its secrets masked.
func Print(c Config) ([]byte, error) { return yaml.Marshal(c) }

// namedSetting is one setting: its value and its name.
type namedSetting struct {
	name string // http.address
	help string
	def  string
	val  reflect.Value
}

func namedSettings(c *Config) []namedSetting {
	return walk(reflect.ValueOf(c).Elem(), "")
}

func walk(v reflect.Value, prefix string) (out []namedSetting) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name := prefix + f.Tag.Get("json")
		if help, ok := f.Tag.Lookup("help"); ok {
			out = append(out, namedSetting{name: name, help: help, def: show(v.Field(i)), val: v.Field(i)})
			continue
		}
		out = append(out, walk(v.Field(i), name+".")...)
	}
	return out
}

// fileOnly reports whether the setting is a list of structs, which only a file can hold.
func (l namedSetting) fileOnly() bool {
	return l.val.Kind() == reflect.Slice && l.val.Type().Elem().Kind() == reflect.Struct
}

// FileSettings describes the settings that only the file has, in the form of the help of flags, with the members of their items.
func FileSettings() string {
	var b strings.Builder
	c := Default()
	for _, l := range namedSettings(&c) {
		if l.fileOnly() {
			fmt.Fprintf(&b, "  %s\n    \t%s; each with %s\n", l.name, l.help, strings.Join(memberNames(l.val.Type().Elem(), ""), ", "))
		}
	}
	return b.String()
}

// memberNames returns the names of the fields of a struct, and of the structs in it.
func memberNames(t reflect.Type, prefix string) (out []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name := prefix + f.Tag.Get("json")
		if f.Type.Kind() == reflect.Struct {
			out = append(out, memberNames(f.Type, name+".")...)
		} else {
			out = append(out, name)
		}
	}
	return out
}

func show(v reflect.Value) string {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct {
		return ""
	}
	if v.Kind() == reflect.Slice {
		return strings.Join(v.Interface().([]string), ",")
	}
	return fmt.Sprint(v.Interface())
}

// env is the name of the setting in the environment: http.packageLimit is
// EMCO_HTTP_PACKAGE_LIMIT, oci.plainHTTP is EMCO_OCI_PLAIN_HTTP.
func (l namedSetting) env() string {
	return l.variable(func(before, after rune) bool { return !unicode.IsUpper(before) || unicode.IsLower(after) })
}

// formerEnv is the name that it had before: EMCO_OCI_PLAIN_H_T_T_P.
func (l namedSetting) formerEnv() string {
	return l.variable(func(_, _ rune) bool { return true })
}

// variable makes a name of the environment. A capital begins a word if begins returns true for its
// neighbours.
func (l namedSetting) variable(begins func(before, after rune) bool) string {
	var b strings.Builder
	b.WriteString("EMCO_")
	name := []rune(l.name)
	for i, r := range name {
		var after rune
		if i+1 < len(name) {
			after = name[i+1]
		}
		switch {
		case r == '.':
			r = '_'
		case unicode.IsUpper(r) && begins(name[i-1], after):
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}

func (l namedSetting) usage() string {
	text := l.help + " (" + l.env() + ")"
	if l.def != "" {
		text += " (default " + l.def + ")"
	}
	return text
}

// check says what to write if v does not fit; flags are checked while they are parsed.
func (l namedSetting) check(v string) error {
	if parse(reflect.New(l.val.Type()).Elem(), v) != nil {
		return errors.New("write " + wanted(l.val.Type()))
	}
	return nil
}

// override sets the setting from the environment and the flags, and reports whether one of them has it.
func (l namedSetting) override(env environment, flags map[string]string, warn func(string)) (bool, error) {
	name, text, inEnv := l.lookup(env, warn)
	if inEnv {
		if err := assign(l.val, text); err != nil {
			return true, fmt.Errorf("%s: %w", name, err)
		}
	}
	if text, ok := flags[l.name]; ok {
		return true, assign(l.val, text)
	}
	return inEnv, nil
}

// lookup finds the setting in the environment, by its name or by the former one.
func (l namedSetting) lookup(env environment, warn func(string)) (name, value string, ok bool) {
	name = l.env()
	value, ok = env[name]
	former := l.formerEnv()
	if former == name {
		return name, value, ok
	}
	old, given := env[former]
	switch {
	case given && ok:
		warn(former + " is ignored: " + name + " is set")
	case given:
		warn(former + " is now called " + name + "; rename it")
		return former, old, true
	}
	return name, value, ok
}
