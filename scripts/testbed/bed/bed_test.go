package bed

import (
	"bytes"
	"strings"
	"sync"
	"testing"
)

func TestABedNeedsAFolder(t *testing.T) {
	if _, err := Open(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "Dir") {
		t.Errorf("Open without a folder: %v, want an error that names Dir", err)
	}
}

func TestProgressLinesOfSeveralGoroutinesStayWhole(t *testing.T) {
	var out bytes.Buffer
	b := &Bed{progress: &lineWriter{to: &out}}
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() { b.Say("c1", "step %d", 1) })
	}
	group.Wait()
	if want := strings.Repeat("testbed: c1: step 1\n", 20); out.String() != want {
		t.Errorf("got %q", out.String())
	}
}
