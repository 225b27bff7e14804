// Package feed hands on what a reflector brings. The interface of reflectors knows no
// types; whoever takes objects from here is given objects.
package watchstore

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Taker takes objects of one kind. Calls come one after the other.
type Taker interface {
	Put(o metav1.Object)         // it is new, or has changed
	Gone(o metav1.Object)        // with what was known of it last
	All(objects []metav1.Object) // that there are, after a start or a gap
}

// Store is a Taker as the store that a reflector fills. What is no object is left out.
type Store struct{ Taker }

// Add takes an object that is new.
func (s Store) Add(obj any) error { return s.Update(obj) }

// Update takes an object that changed.
func (s Store) Update(obj any) error {
	if o, ok := obj.(metav1.Object); ok {
		s.Put(o)
	}
	return nil
}

// Delete takes an object that went.
func (s Store) Delete(obj any) error {
	if o, ok := obj.(metav1.Object); ok {
		s.Gone(o)
	}
	return nil
}

// Replace takes all objects that there are.
func (s Store) Replace(list []any, _ string) error {
	objects := make([]metav1.Object, 0, len(list))
	for _, obj := range list {
		if o, ok := obj.(metav1.Object); ok {
			objects = append(objects, o)
		}
	}
	s.All(objects)
	return nil
}

// Resync does nothing: takers derive nothing that could be out of step.
func (s Store) Resync() error { return nil }
