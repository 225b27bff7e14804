package pairstore

import (
	"encoding/json"
	"strings"
	"time"
	"unique"
)

// State is everything about a pair but its key and its cluster's registration: what pairs that
// stand alike have in common. It does not change, so any number of pairs share one.
type State struct{ common Pair }

// StateOf returns the state of a pair.
func StateOf(p Pair) *State {
	p.Key, p.Registration = Key{}, ""
	return &State{p}
}

// Pair returns the pair with this state and the given key and registration. Its slices and its
// Edit are shared and must not be changed.
func (s *State) Pair(key Key, registration string) Pair {
	p := s.common
	p.Key, p.Registration = key, registration
	return p
}

// Common returns what pairs with this state have in common: a pair without Key and Registration. It
// must not be changed. It is nil for a nil State.
func (s *State) Common() *Pair {
	if s == nil {
		return nil
	}
	return &s.common
}

// stateID is equal for equal states alone.
type stateID = unique.Handle[stateValues]

// stateValues is all members of a state. Times count as moments, without their zones.
type stateValues struct {
	rev, at, nextRetry                     int64
	desired, applied, from                 Digest
	held, commit, errText, reason, blocked string
	findings, overlaps                     string
	edit, outcome, shard                   string
	waiting                                string
	phase                                  Phase
	change                                 Change
	attempt, step                          int
	sent, halted                           bool
}

// idOf returns the id of a pair's state.
func idOf(p *Pair) stateID { return unique.Make(valuesOf(p)) }

// lastID is the state of the pair that was looked at last, and its id. The next pair mostly stands alike, and to compare the
// states is faster than to find the id of one.
type lastID struct {
	values stateValues
	id     stateID // of values; zero before the first pair
}

// of returns the id of a pair's state.
func (l *lastID) of(p *Pair) stateID {
	if v := valuesOf(p); l.id == (stateID{}) || v != l.values {
		l.values, l.id = v, unique.Make(v)
	}
	return l.id
}

// valuesOf returns the members of a pair's state. A test checks that every member of a pair counts.
func valuesOf(p *Pair) stateValues {
	v := stateValues{
		rev: p.Rev, at: moment(p.At), nextRetry: moment(p.NextRetry),
		desired: p.Desired, applied: p.Applied, from: p.From,
		commit: p.Commit, errText: p.Error, reason: p.Reason, blocked: p.Blocked,
		findings: strings.Join(p.Findings, "\x00"), overlaps: strings.Join(p.Overlaps, "\x00"), shard: p.Shard, waiting: p.Waiting,
		phase: p.Phase, change: p.Change, attempt: p.Attempt, step: p.Step, sent: p.Sent, halted: p.Halted,
	}
	switch len(p.Held) {
	case 0:
	case 1:
		v.held = string(p.Held[0])
	default:
		var b strings.Builder
		for _, d := range p.Held {
			b.WriteString(string(d))
			b.WriteByte(0)
		}
		v.held = b.String()
	}
	if p.Edit != nil {
		v.edit = textOf(p.Edit)
	}
	if p.Outcome != nil {
		v.outcome = textOf(p.Outcome)
	}
	return v
}

// textOf returns v as JSON. It must have only strings, numbers and times, which cannot fail.
func textOf[T any](v *T) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// Equal reports whether two pairs are the same in all their members. Times count as moments.
func Equal(a, b *Pair) bool {
	return a.Key == b.Key && a.Registration == b.Registration && valuesOf(a) == valuesOf(b)
}

// moment returns a time as a number; 0 for the zero time.
func moment(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Interner gives pairs that stand alike one State.
type Interner struct {
	states map[stateID]*State
	last   map[string]*lastID // by app: the apps of a target take turns
}

// NewInterner returns one without states.
func NewInterner() Interner { return Interner{map[stateID]*State{}, map[string]*lastID{}} }

// Of returns the state of a pair.
func (in Interner) Of(p Pair) *State {
	last := in.last[p.Key.App]
	if last == nil {
		last = new(lastID)
		in.last[p.Key.App] = last
	}
	id := last.of(&p)
	s := in.states[id]
	if s == nil {
		s = StateOf(p)
		in.states[id] = s
	}
	return s
}
