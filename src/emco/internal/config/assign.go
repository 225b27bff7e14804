package config

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// assign reads a setting from text, as the file, variables and flags have it. A text that does not fit leaves the setting as it was; the
// error says what to write.
func assign(v reflect.Value, text string) error {
	read := reflect.New(v.Type()).Elem()
	switch err := parse(read, text); {
	case err != nil && text == "":
		return fmt.Errorf("it is empty; write %s", wanted(v.Type()))
	case err != nil:
		return fmt.Errorf("%q does not fit; write %s", text, wanted(v.Type()))
	}
	v.Set(read)
	return nil
}

// parse reads a value of the types that settings have.
func parse(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := parseBool(text)
		v.SetBool(b)
		return err
	case reflect.Int, reflect.Int64:
		n, err := parseInt(text)
		v.SetInt(n)
		return err
	case reflect.Slice:
		v.Set(reflect.ValueOf(list(text)))
	}
	return nil
}

// wanted describes the values of a type of settings.
func wanted(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[Duration]():
		return "a duration, such as 30s, 5m or 1h30m"
	case t == reflect.TypeFor[Share]():
		return "a number from 0 to 1, such as 0.01"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		return "a whole number without a unit"
	}
	return "a text"
}

// parseBool also reads the words that YAML has for true and false.
func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "yes", "y", "on":
		return true, nil
	case "no", "n", "off":
		return false, nil
	}
	return strconv.ParseBool(text)
}

// parseInt also reads what YAML writes otherwise, such as 0x10, 1_000 and 2.5e+07: Helm writes large numbers so.
func parseInt(text string) (int64, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	if n, err := strconv.ParseInt(text, 0, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err == nil && (f != math.Trunc(f) || math.Abs(f) >= 1<<63) {
		err = errors.New("no whole number of 64 bits")
	}
	if err != nil {
		return 0, err
	}
	return int64(f), nil
}

// list reads names with commas between them.
func list(text string) []string {
	out := []string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
