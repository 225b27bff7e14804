// Package script reads orders: what happens to which simulated clusters, and when.
//
//	seed: 7
//	orders:
//	- "30s 10% offline"
//	- "1m 0-99 fail Deployment/web"
//	- "2m all online"
//
// An order is a time after the start, a selector (all, a share such as 10%, or numbers such
// as 0-99 or 7) and an action: offline, online, lag DURATION, fail KIND/NAME, heal, drift
// KIND/NAME. A star stands for any name. The seed decides which clusters are in a share.
package script

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Action is what happens to a cluster.
type Action string

// The actions.
const (
	Offline Action = "offline" // it neither fetches nor reports
	Online  Action = "online"  // it fetches and reports again
	Lag     Action = "lag"     // it applies with an extra delay; 0s ends that
	Fail    Action = "fail"    // it reports an object as failed
	Heal    Action = "heal"    // it reports no object as failed
	Drift   Action = "drift"   // an object is changed; the next poll of the reconciler repairs it
)

// Order is one line.
type Order struct {
	At     time.Duration
	Select Selector
	Do     Action
	Object string        // of Fail and Drift: KIND/NAME
	By     time.Duration // of Lag
}

// Selector selects clusters: a share, or a range of numbers.
type Selector struct {
	Share    float64 // of all clusters; 0 if it is a range
	From, To int     // inclusive
}

// Script is the content of a file.
type Script struct {
	Seed   uint64   `json:"seed"`
	Orders []string `json:"orders"`
}

// Read reads a script from a file.
func Read(path string) (s Script, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// ParseAll parses lines and sorts the orders by time.
func ParseAll(lines []string) ([]Order, error) {
	var out []Order
	for _, line := range lines {
		o, err := Parse(line)
		if err != nil {
			return nil, fmt.Errorf("order %q: %w", line, err)
		}
		out = append(out, o)
	}
	slices.SortStableFunc(out, func(a, b Order) int { return cmp.Compare(a.At, b.At) })
	return out, nil
}

// Parse parses a line.
func Parse(line string) (o Order, err error) {
	word := strings.Fields(line)
	if len(word) < 3 {
		return o, errors.New("want WHEN WHO WHAT, such as: 30s 10% offline")
	}
	if o.At, err = time.ParseDuration(word[0]); err != nil || o.At < 0 {
		return o, fmt.Errorf("%q is not a time after the start, such as 30s", word[0])
	}
	if o.Select, err = parseSelector(word[1]); err != nil {
		return o, err
	}
	o.Do = Action(word[2])
	err = o.parseArgument(word[3:])
	return o, err
}

// parseArgument reads what comes after the verb.
func (o *Order) parseArgument(rest []string) (err error) {
	switch o.Do {
	case Offline, Online, Heal:
		if len(rest) > 0 {
			err = fmt.Errorf("%s takes nothing after it", o.Do)
		}
		return err
	case Lag:
		if len(rest) == 1 {
			o.By, err = time.ParseDuration(rest[0])
		}
		if len(rest) != 1 || err != nil || o.By < 0 {
			err = errors.New("lag wants a duration, such as 5m")
		}
		return err
	case Fail, Drift:
		kind, name, ok := strings.Cut(strings.Join(rest, " "), "/")
		if len(rest) != 1 || !ok || kind == "" || name == "" {
			return fmt.Errorf("%s wants an object as KIND/NAME, such as Deployment/web or ConfigMap/*", o.Do)
		}
		o.Object = rest[0]
		return nil
	}
	return fmt.Errorf("%q is none of offline, online, lag, fail, heal, drift", o.Do)
}

func parseSelector(text string) (Selector, error) {
	if text == "all" {
		return Selector{Share: 1}, nil
	}
	if share, ok := strings.CutSuffix(text, "%"); ok {
		v, err := strconv.ParseFloat(share, 64)
		if err != nil || !(v > 0 && v <= 100) {
			return Selector{}, fmt.Errorf("%q is not a share, such as 10%%", text)
		}
		return Selector{Share: v / 100}, nil
	}
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	from, err := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err != nil || err2 != nil || from < 0 || to < from {
		return Selector{}, fmt.Errorf("%q is neither all, nor a share such as 10%%, nor numbers such as 0-99", text)
	}
	return Selector{From: from, To: to}, nil
}

// Pick returns the selected ones of n clusters, sorted. A share is at least one cluster.
func (w Selector) Pick(n int, draw *rand.Rand) []int {
	var out []int
	if w.Share == 0 {
		for i := w.From; i <= w.To && i < n; i++ {
			out = append(out, i)
		}
		return out
	}
	count := min(n, max(1, int(w.Share*float64(n)+0.5)))
	out = draw.Perm(n)[:count]
	slices.Sort(out)
	return out
}

// Matches reports whether a pattern of Fail or Drift matches an object.
func Matches(pattern, kind, name string) bool {
	k, n, _ := strings.Cut(pattern, "/")
	return strings.EqualFold(k, kind) && (n == "*" || n == name)
}
