package archtest

import (
	"slices"
	"testing"
)

func TestAMutexWithoutAWordAboutWhatItGuardsIsFound(t *testing.T) {
	t.Parallel()
	got, err := unguarded(`package p

import "sync"

type bare struct {
	mu sync.Mutex
	n  int // a number
}

type field struct {
	mu sync.RWMutex
	n  int // guarded by mu
}

// whole is guarded by its mu.
type whole struct {
	mu sync.Mutex
	n  int
}

type serial struct {
	mu sync.Mutex // held while a file is written
}

type without struct{ n int }
`)
	if err != nil || !slices.Equal(got, []string{"bare"}) {
		t.Errorf("got %q, %v, want bare alone", got, err)
	}
}

func TestMutexesNameWhatTheyGuard(t *testing.T) {
	t.Parallel()
	CheckGuards(t, "..")
}
