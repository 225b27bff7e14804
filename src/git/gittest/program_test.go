package gittest_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// A hook runs as soon as it is written, although other tests start processes all the time.
func TestAProgramCanRunAtOnce(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	var others sync.WaitGroup
	defer others.Wait()
	defer close(done)
	for range 4 {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = exec.CommandContext(t.Context(), "true").Run()
				}
			}
		})
	}
	dir := t.TempDir()
	for i := range 150 {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := gittest.WriteProgram(path, "exit 0"); err != nil {
			t.Fatal(err)
		}
		if err := exec.CommandContext(t.Context(), path).Run(); err != nil {
			t.Fatal(err)
		}
	}
}
