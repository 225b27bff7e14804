package appcontext

import (
	"reflect"
	"testing"
)

// Two lists are gone through together; what shares its Apps is the same set.
func TestZip(t *testing.T) {
	t.Parallel()
	one, other := map[string]Digest{"app": "1"}, map[string]Digest{"app": "1"}
	a := []Placement{{"a", one}, {"b", one}, {"d", other}}
	b := []Placement{{"b", one}, {"c", other}, {"d", one}, {"e", one}}
	var got [][2]Placement
	for x, y := range Zip(a, b) {
		got = append(got, [2]Placement{x, y})
	}
	want := [][2]Placement{{a[0], {Cluster: "a"}}, {a[1], b[0]}, {{Cluster: "c"}, b[1]}, {a[2], b[2]}, {{Cluster: "e"}, b[3]}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if a[0].Set() != b[0].Set() || a[2].Set() == b[2].Set() {
		t.Error("sets must be compared by their content, not by identity")
	}
	for range Zip(nil, nil) {
		t.Error("of nothing something came")
	}
}
