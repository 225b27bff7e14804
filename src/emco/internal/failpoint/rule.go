package failpoint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// faultAction is what happens at a point.
type faultAction uint8

const (
	actionError faultAction = iota
	actionDelay
	actionKill
	actionPanic
	actionStop
)

var actions = map[string]faultAction{"error": actionError, "delay": actionDelay, "kill": actionKill, "panic": actionPanic, "stop": actionStop}

// rule is an action at some hits of a point.
type rule struct {
	point  string // a "*" at its end matches any rest
	action faultAction
	delay  time.Duration
	after  int // hits that are skipped first
	every  int // of the following hits, every n-th applies
	times  int // the most often that it applies; 0 is no limit

	seen, fired int
}

func (r *rule) covers(point string) bool {
	head, open := strings.CutSuffix(r.point, "*")
	return point == r.point || open && strings.HasPrefix(point, head)
}

// fires counts a hit and reports whether the rule applies to it.
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
// POINT is a name; with a "*" at its end, all names with that prefix, counted together.
// ACTION is error, delay, kill, panic or stop. An ARGUMENT is the duration of a delay ("200ms"), or
// selects hits: "after 3" skips three, "1 in 3" selects every third, "once" and "2 times"
// bound the number.
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
		return nil, fmt.Errorf("%q is no action; there are error, delay, kill, panic, stop", name)
	}
	for arg := range strings.SplitSeq(strings.TrimSuffix(args, ")"), ",") {
		if err := r.argument(strings.TrimSpace(arg)); err != nil {
			return nil, err
		}
	}
	if (r.action == actionDelay) != (r.delay > 0) {
		return nil, errors.New("a delay needs a duration, such as delay(200ms), and other actions have none")
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
