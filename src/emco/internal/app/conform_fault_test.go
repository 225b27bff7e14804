package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint/wrap"
)

// accesses is an upper bound of the accesses to either store during an installation or an
// update, until the branches are complete.
const accesses = 40

// Each access to a store fails once, in turn. Each request still takes effect, with each
// cluster's own credentials and from the desired revision, and the status does not report
// it earlier.
func TestConformance04AnyStoreErrorNeverLies(t *testing.T) {
	t.Parallel()
	which, lanes := []int{1, 6, 14, 30}, 1
	if whole() {
		which, lanes = nil, 4
		for n := range accesses {
			which = append(which, n)
		}
	}
	var all []faultRule
	for i, n := range which {
		for s, store := range []string{"documents.*", "etcd.*"} {
			if whole() || s == i%2 {
				all = append(all, faultRule{store, fmt.Sprintf("error(after %d, once)", n)})
			}
		}
	}
	for lane := range lanes {
		t.Run(fmt.Sprint("lane ", lane), func(t *testing.T) {
			t.Parallel()
			w := newFaultSweep(t)
			for i := lane; i < len(all); i += lanes {
				w.installAndUpdate(all[i])
			}
			w.wantOnlyBystander()
		})
	}
}

// installAndUpdate makes a fault strike once while a deployment is installed, and once
// while it is updated. The test does not read the status until the branches are complete, so
// that the fault strikes the program's own work.
func (w *faultSweep) installAndUpdate(f faultRule) {
	w.Helper()
	l := w.newLife(f)
	l.quiet = true
	m := l.model
	first, second, _ := releases()
	l.repack("web", 1)
	l.repack("db", 1)
	m.approve()
	l.create()
	l.step("instantiate", func() { m.instantiate(first); l.act("instantiate", "") })
	l.step("update", func() { l.repack("web", 2); l.move("cache", "b", "c"); m.update(second); l.act("update", "") })
	l.clear()
}

// clear ends the deployment, undisturbed.
func (l *sweptDeployment) clear() {
	l.Helper()
	l.fault = faultRule{wrap.APIRequest, "error(after 1000, once)"} // never
	l.step("terminate", func() { l.model.terminate(); l.act("terminate", "") })
	l.step("delete", func() { l.remove() })
}

// The program is killed at every step of an update. After the restart the branch holds
// exactly the new revision, and no file changed twice.
func TestConformance07KillAtEveryStepOfAnUpdate(t *testing.T) {
	t.Parallel()
	steps, lanes := []string{"etcd.step.after", "etcd.place.after", "etcd.publish.before", "etcd.intend.after", wrap.GitCommitAfter, wrap.GitAnswer, "etcd.settle.after"}, 1
	if whole() {
		lanes = 3
		steps = slices.DeleteFunc(wrap.Points(), func(point string) bool {
			return unreached(point) || strings.HasPrefix(point, "documents.remove") || strings.HasPrefix(point, "etcd.remove")
		})
	}
	for lane := range lanes {
		t.Run(fmt.Sprint("lane ", lane), func(t *testing.T) {
			t.Parallel()
			w := newFaultSweep(t)
			w.updates(steps, lane, lanes)
			w.wantOnlyBystander()
		})
	}
}

// updates updates one deployment again and again, with a death at another step each time.
func (w *faultSweep) updates(steps []string, first, stride int) {
	w.Helper()
	l := w.newLife(faultRule{wrap.APIRequest, "error(after 1000, once)"})
	m := l.model
	one, _, _ := releases()
	l.repack("web", 1)
	l.repack("db", 1)
	m.approve()
	l.create()
	l.step("instantiate", func() { m.instantiate(one); l.act("instantiate", "") })
	for i := first; i < len(steps); i += stride {
		where := [][]string{{"b", "c"}, {"a", "b"}}[(i-first)/stride%2]
		next := one.with("web", 10+i, "a", "b", "c", "d").with("cache", 1, where...)
		l.fault, l.hit = faultRule{steps[i], "kill"}, nil
		l.step("update", func() {
			l.repack("web", 10+i)
			l.move("cache", where...)
			m.update(next)
			l.act("update", "")
		})
		if len(l.hit) == 0 {
			w.Errorf("%v: it never struck", l.fault)
		}
	}
	l.clear()
}
