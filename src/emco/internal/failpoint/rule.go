package failpoint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// action is what happens at a point.
type action uint8

const (
	actionError action = iota
	actionDelay
	actionKill
)

var actions = map[string]action{"error": actionError, "delay": actionDelay, "kill": actionKill}

// rule says what happens at which hits of a point.
type rule struct {
	point  string // "*" at its end stands for any rest
	action action
	delay  time.Duration
	after  int // hits that are let pass first
	every  int // of those that follow, each so many-th applies
	times  int // how often it applies at most; 0 is always

	seen, fired int
}

func (r *rule) covers(point string) bool {
	head, open := strings.CutSuffix(r.point, "*")
	return point == r.point || open && strings.HasPrefix(point, head)
}

// fires counts a hit and says whether the rule applies to it.
func (r *rule) fires() bool {
	r.seen++
	late := r.seen - r.after
	if late <= 0 || late%r.every != 0 || r.times > 0 && r.fired >= r.times {
		return false
	}
	r.fired++
	return true
}

// parse reads rules, separated by semicolons. The first that applies to a hit counts.
//
//	POINT=ACTION[(ARGUMENT, ...)]
//
// POINT is a name; with a "*" at its end, all that begin so, counted together. ACTION is
// error, delay or kill. An ARGUMENT is how long a delay takes ("200ms"), or which hits it
// is about: "after 3" lets three pass, "1 in 3" takes each third, "once" and "2 times"
// bound how many.
func parse(text string) ([]*rule, error) {
	var out []*rule
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		r, err := parseRule(part)
		if err != nil {
			return nil, fmt.Errorf("failpoint %q: %w", part, err)
		}
		out = append(out, r)
	}
	return out, nil
}

func parseRule(text string) (*rule, error) {
	point, what, ok := strings.Cut(text, "=")
	if !ok {
		return nil, errors.New("write POINT=ACTION")
	}
	name, args, given := strings.Cut(strings.TrimSpace(what), "(")
	if given && !strings.HasSuffix(args, ")") {
		return nil, errors.New("a parenthesis is not closed")
	}
	r := &rule{point: strings.TrimSpace(point), every: 1}
	if r.action, ok = actions[name]; !ok {
		return nil, fmt.Errorf("%q is no action; there are error, delay, kill", name)
	}
	for arg := range strings.SplitSeq(strings.TrimSuffix(args, ")"), ",") {
		if err := r.argument(strings.TrimSpace(arg)); err != nil {
			return nil, err
		}
	}
	if (r.action == actionDelay) != (r.delay > 0) {
		return nil, errors.New("a delay, and nothing else, has a duration, such as delay(200ms)")
	}
	return r, nil
}

// argument reads one argument into the rule.
func (r *rule) argument(text string) (err error) {
	switch {
	case text == "":
	case text == "once":
		r.times = 1
	case strings.HasPrefix(text, "after "):
		r.after, err = strconv.Atoi(text[len("after "):])
	case strings.HasPrefix(text, "1 in "):
		r.every, err = strconv.Atoi(text[len("1 in "):])
	case strings.HasSuffix(text, " times"):
		r.times, err = strconv.Atoi(strings.TrimSuffix(text, " times"))
	default:
		r.delay, err = time.ParseDuration(text)
	}
	if err != nil || r.after < 0 || r.every < 1 || r.times < 0 || r.delay < 0 {
		return fmt.Errorf("%q is no argument; there are a duration, once, N times, after N, 1 in N", text)
	}
	return nil
}
