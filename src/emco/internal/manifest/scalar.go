package manifest

import (
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// scalar returns the value of a scalar. Only plain scalars can be anything but text.
func scalar(n *yaml.Node) (any, error) {
	const text = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if n.Style&yaml.TaggedStyle != 0 {
		return tagged(n)
	}
	if n.Style&text != 0 {
		return n.Value, nil
	}
	return plain(n)
}

// tagged returns the value of a scalar with an explicit tag, which must match the value.
func tagged(n *yaml.Node) (any, error) {
	tag := n.ShortTag()
	if tag == "!!str" || tag == "!" {
		return n.Value, nil
	}
	v, err := plain(n)
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"!!null", "!!bool", "!!int", "!!float"}, tag) {
		return nil, faultAt(n, "tag %s is not supported", tag)
	}
	fits := false
	switch v := v.(type) {
	case nil:
		fits = tag == "!!null"
	case bool:
		fits = tag == "!!bool"
	case json.Number:
		fits = tag == "!!float" || tag == "!!int" && !strings.ContainsAny(v.String(), ".eE")
	}
	if !fits {
		return nil, faultAt(n, "the value does not fit its tag %s", tag)
	}
	return v, nil
}

// plain resolves a plain scalar as Kubernetes does, by the rules of YAML 1.1.
func plain(n *yaml.Node) (any, error) {
	switch n.Value {
	case "", "~", "null", "Null", "NULL":
		return nil, nil
	case "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON":
		return true, nil
	case "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF":
		return false, nil
	case ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF":
		return nil, faultAt(n, "a number must be finite; quote it if it is text")
	}
	if num, ok := number(n.Value); ok {
		return num, nil
	}
	return n.Value, nil
}

var (
	decimal  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`) // JSON's numbers
	floating = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
)

// number reads a plain scalar that looks like a number. A JSON number keeps its text; other
// notations (octal, hexadecimal, "1_000", "+1", ".5") become the JSON number of the same
// value. As for Kubernetes, a number that is too large for a float, such as 1e999, is a
// string.
func number(s string) (json.Number, bool) {
	if s[0] != '+' && s[0] != '-' && s[0] != '.' && (s[0] < '0' || s[0] > '9') {
		return "", false
	}
	if s[0] != '.' {
		s = strings.ReplaceAll(s, "_", "")
	}
	if rest := strings.TrimPrefix(s, "+"); decimal.MatchString(rest) && !strings.HasPrefix(s, "+-") {
		s = rest
	} else if i, ok := new(big.Int).SetString(s, 0); ok && (i.IsInt64() || i.IsUint64()) {
		return json.Number(i.String()), true
	}
	if !floating.MatchString(s) {
		return "", false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return "", false
	}
	if decimal.MatchString(s) {
		return json.Number(s), true
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64)), true
}
