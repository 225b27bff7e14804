package pairstore

import (
	"reflect"
	"testing"
	"time"
)

// TestEveryMemberOfAPairCounts fails when a member of Pair is added that stateID leaves out: pairs
// that differ in it would be stored as one.
func TestEveryMemberOfAPairCounts(t *testing.T) {
	t.Parallel()
	of := reflect.TypeFor[Pair]()
	for i := range of.NumField() {
		field := of.Field(i)
		var p Pair
		fill(t, reflect.ValueOf(&p).Elem().Field(i))
		counts := idOf(&p) != idOf(&Pair{})
		if shared := field.Name != "Key" && field.Name != "Registration"; counts != shared {
			t.Errorf("%s: counts is %v, want %v", field.Name, counts, shared)
		}
	}
	two := Pair{Held: []Digest{"a", "b"}}
	if idOf(&two) == idOf(&Pair{Held: []Digest{"ab"}}) {
		t.Error("two held bundles are taken for one")
	}
}

// The id of a state does not depend on the states that were looked at before.
func TestTheLastIDIsThatOfTheState(t *testing.T) {
	t.Parallel()
	var last lastID
	in := NewInterner()
	for _, p := range []Pair{{}, {Rev: 1}, {Rev: 1, Registration: "42"}, {Rev: 1, Key: Key{App: "web"}}, {Rev: 2}, {Rev: 1}, {}} {
		if last.of(&p) != idOf(&p) {
			t.Errorf("%+v has the id of another state", p)
		}
		if got := in.Of(p); got.Common().Rev != p.Rev || got != in.states[idOf(&p)] {
			t.Errorf("%+v got the state %+v", p, got.Common())
		}
	}
	if len(in.states) != 3 {
		t.Errorf("%d states, want 3", len(in.states))
	}
}

// Pairs that stand alike one after the other cost no search for the id of their state.
func BenchmarkInterner(b *testing.B) {
	p := Pair{Rev: 7, At: time.Unix(5, 0), Phase: Applied, Desired: "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Commit: "c0ffee", Shard: "git 7"}
	p.Applied, p.Held = p.Desired, []Digest{p.Desired}
	in := NewInterner()
	for b.Loop() {
		in.Of(p)
	}
}

func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(1, 0)))
		return
	case Key:
		v.Set(reflect.ValueOf(Key{Cluster: "p+c"}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	default:
		t.Fatalf("no value for a %s", v.Type())
	}
}

func TestAStateGivesBackItsPair(t *testing.T) {
	t.Parallel()
	p := Pair{Key: Key{Deployment: "7", App: "web"}, Registration: "42", Rev: 3, Held: []Digest{"a"}, At: time.Unix(5, 0)}
	if got := StateOf(p).Pair(p.Key, p.Registration); !reflect.DeepEqual(got, p) {
		t.Errorf("got %+v, want %+v", got, p)
	}
}
