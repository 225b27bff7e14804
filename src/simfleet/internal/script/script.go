// Package orders is what simulated clusters are told to do, and when:
//
//	seed: 7
//	orders:
//	- "30s 10% offline"
//	- "1m 0-99 fail Deployment/web"
//	- "2m all online"
//
// A line says when, counted from the start; who (all, a share such as 10%, numbers such as
// 0-99 or 7); and what: offline, online, lag DURATION, fail KIND/NAME, heal, drift KIND/NAME.
// A star stands for any name. A share is drawn by the seed.
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

// Verb is what a cluster is to do.
type Verb string

// The verbs.
const (
	Offline Verb = "offline" // neither fetches nor reports
	Online  Verb = "online"  // does so again
	Lag     Verb = "lag"     // applies what it fetched so much later; 0s ends that
	Fail    Verb = "fail"    // an object does not become well
	Heal    Verb = "heal"    // all objects do again
	Drift   Verb = "drift"   // somebody changes an object; the reconciler puts it right with its next look
)

// Order is one line.
type Order struct {
	At     time.Duration
	Who    Who
	Do     Verb
	Object string        // of Fail and Drift: KIND/NAME
	By     time.Duration // of Lag
}

// Who selects clusters: a share, or a range of numbers.
type Who struct {
	Share    float64 // of all; 0 if it is a range
	From, To int     // both are in it
}

// Script is a file of orders.
type Script struct {
	Seed   uint64   `json:"seed"`
	Orders []string `json:"orders"`
}

// Read reads a file.
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

// ParseAll reads lines and returns them in order of time.
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

// Parse reads a line.
func Parse(line string) (o Order, err error) {
	word := strings.Fields(line)
	if len(word) < 3 {
		return o, errors.New("want WHEN WHO WHAT, such as: 30s 10% offline")
	}
	if o.At, err = time.ParseDuration(word[0]); err != nil || o.At < 0 {
		return o, fmt.Errorf("%q is no time after the start, such as 30s", word[0])
	}
	if o.Who, err = parseWho(word[1]); err != nil {
		return o, err
	}
	o.Do = Verb(word[2])
	err = o.argument(word[3:])
	return o, err
}

// argument reads what comes after the verb.
func (o *Order) argument(rest []string) (err error) {
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

func parseWho(text string) (Who, error) {
	if text == "all" {
		return Who{Share: 1}, nil
	}
	if share, ok := strings.CutSuffix(text, "%"); ok {
		v, err := strconv.ParseFloat(share, 64)
		if err != nil || !(v > 0 && v <= 100) {
			return Who{}, fmt.Errorf("%q is no share, such as 10%%", text)
		}
		return Who{Share: v / 100}, nil
	}
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	from, err := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err != nil || err2 != nil || from < 0 || to < from {
		return Who{}, fmt.Errorf("%q is neither all, nor a share such as 10%%, nor numbers such as 0-99", text)
	}
	return Who{From: from, To: to}, nil
}

// Pick returns the clusters of n that are meant, in order. A share is at least one.
func (w Who) Pick(n int, draw *rand.Rand) []int {
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

// Matches says whether a pattern of Fail or Drift means an object.
func Matches(pattern, kind, name string) bool {
	k, n, _ := strings.Cut(pattern, "/")
	return strings.EqualFold(k, kind) && (n == "*" || n == name)
}
