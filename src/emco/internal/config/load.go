package config

import (
	"encoding"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Load fills a Config from its defaults, the file that -config or EMCO_CONFIG names,
// the environment and args, and validates it. Unknown settings are errors. It
// returns flag.ErrHelp after it has printed the help to fs's output.
func Load(fs *flag.FlagSet, args []string, getenv func(string) (string, bool)) (Config, error) {
	c := Default()
	leaves := leavesOf(&c)
	set := map[string]string{} // flags given, applied after file and environment
	for _, l := range leaves {
		fs.Func(l.name, l.usage(), func(v string) error { set[l.name] = v; return l.check(v) })
	}
	file, _ := getenv("EMCO_CONFIG")
	fs.StringVar(&file, "config", file, "configuration file in YAML (EMCO_CONFIG)")
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q; see -help", fs.Arg(0))
	}
	if err := readFile(file, &c); err != nil {
		return c, err
	}
	for _, l := range leaves {
		if err := l.override(getenv, set); err != nil {
			return c, err
		}
	}
	return c, c.Validate()
}

func readFile(path string, c *Config) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	if err := yaml.UnmarshalStrict(text, c); err != nil {
		return fmt.Errorf("configuration file %s: %w", path, err)
	}
	return nil
}

// Print writes c as YAML with its secrets masked.
func Print(c Config) ([]byte, error) { return yaml.Marshal(c) }

// leaf is one setting: its value and its name.
type leaf struct {
	name string // http.address
	help string
	def  string
	val  reflect.Value
}

func leavesOf(c *Config) []leaf {
	return walk(reflect.ValueOf(c).Elem(), "")
}

func walk(v reflect.Value, prefix string) (out []leaf) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name := prefix + f.Tag.Get("json")
		if help, ok := f.Tag.Lookup("help"); ok {
			out = append(out, leaf{name: name, help: help, def: show(v.Field(i)), val: v.Field(i)})
			continue
		}
		out = append(out, walk(v.Field(i), name+".")...)
	}
	return out
}

func show(v reflect.Value) string {
	if v.Kind() == reflect.Slice {
		return strings.Join(v.Interface().([]string), ",")
	}
	return fmt.Sprint(v.Interface())
}

// env is the name of the setting in the environment: http.packageLimit is EMCO_HTTP_PACKAGE_LIMIT.
func (l leaf) env() string {
	var b strings.Builder
	b.WriteString("EMCO_")
	for _, r := range l.name {
		switch {
		case r == '.':
			b.WriteByte('_')
		case r >= 'A' && r <= 'Z':
			b.WriteByte('_')
			b.WriteRune(r)
		default:
			b.WriteString(strings.ToUpper(string(r)))
		}
	}
	return b.String()
}

func (l leaf) usage() string {
	text := l.help + " (" + l.env() + ")"
	if l.def != "" {
		text += " (default " + l.def + ")"
	}
	return text
}

// check validates v while flags are parsed.
func (l leaf) check(v string) error {
	return assign(reflect.New(l.val.Type()).Elem(), v)
}

func (l leaf) override(getenv func(string) (string, bool), flags map[string]string) error {
	if v, ok := getenv(l.env()); ok {
		if err := assign(l.val, v); err != nil {
			return fmt.Errorf("%s: %w", l.env(), err)
		}
	}
	if v, ok := flags[l.name]; ok {
		return assign(l.val, v)
	}
	return nil
}

// assign parses text into the setting.
func assign(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		v.SetBool(b)
		return err
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		v.SetInt(n)
		return err
	case reflect.Slice:
		v.Set(reflect.ValueOf(list(text)))
	}
	return nil
}

func list(text string) []string {
	out := []string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
