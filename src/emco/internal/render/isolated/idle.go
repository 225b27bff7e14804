package isolated

import (
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/childproc"
)

// maxIdle bounds the children without work.
const maxIdle = 4

// idleChildren keeps children that have rendered, for the next charts of their projects.
type idleChildren struct {
	longest time.Duration // after it, a child ends

	mu   sync.Mutex
	kept []*idleChild // the longest idle first; guarded by mu
}

type idleChild struct {
	*childproc.Process
	project string
	end     *time.Timer
}

// take returns a child that has rendered for a project; nil if none is kept. It takes the one that was
// used last, so that the others become idle for long.
func (c *idleChildren) take(project string) *childproc.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, k := range slices.Backward(c.kept) {
		if k.project == project {
			k.end.Stop()
			c.kept = slices.Delete(c.kept, i, i+1)
			return k.Process
		}
	}
	return nil
}

// keep keeps a child for a while. If too many are idle, it returns the longest idle, which the caller must end.
func (c *idleChildren) keep(project string, p *childproc.Process) (surplus *childproc.Process) {
	k := &idleChild{Process: p, project: project}
	c.mu.Lock()
	defer c.mu.Unlock()
	k.end = time.AfterFunc(c.longest, func() {
		if c.remove(k) {
			k.End()
		}
	})
	c.kept = append(c.kept, k)
	if len(c.kept) <= maxIdle {
		return nil
	}
	surplus = c.kept[0].Process
	c.kept[0].end.Stop()
	c.kept = c.kept[1:]
	return surplus
}

// remove reports whether a child was kept still.
func (c *idleChildren) remove(k *idleChild) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.kept, k)
	if i < 0 {
		return false
	}
	c.kept = slices.Delete(c.kept, i, i+1)
	return true
}
