package watchstore_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/monitor/internal/watchstore"
)

// notes write down what they are given.
type notes []string

func (n *notes) Put(o metav1.Object)  { *n = append(*n, "put "+o.GetName()) }
func (n *notes) Gone(o metav1.Object) { *n = append(*n, "gone "+o.GetName()) }

func (n *notes) All(objects []metav1.Object) {
	for _, o := range objects {
		*n = append(*n, "all "+o.GetName())
	}
}

func named(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetName(name)
	return u
}

func TestObjectsAreHandedOnAndNothingElse(t *testing.T) {
	t.Parallel()
	var n notes
	s := watchstore.Store{Taker: &n}
	header := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "d"}}
	for _, err := range []error{
		s.Add(named("a")), s.Update(named("b")), s.Delete(named("c")), s.Replace([]any{named("e"), 7, header}, "1"),
		s.Add("x"), s.Update(nil), s.Delete(7), s.Resync(),
	} {
		if err != nil {
			t.Errorf("an error: %v", err)
		}
	}
	if want := []string{"put a", "put b", "gone c", "all e", "all d"}; !slices.Equal(n, want) {
		t.Errorf("handed on were %q, want %q", n, want)
	}
}
