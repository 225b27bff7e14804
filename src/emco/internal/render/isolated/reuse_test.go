package isolated_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/isolated"
)

// noteStart writes the id of this process to a FIFO; a child cannot write files.
func noteStart(fifo string) {
	f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintln(f, os.Getpid())
}

// starts is a renderer that counts the starts of its children.
type starts struct {
	*testing.T
	render.Renderer
	fifo int
	ids  *[]int
}

func countStarts(t *testing.T, change func(*isolated.Limits)) starts {
	t.Helper()
	l := isolated.Default()
	l.Idle = time.Hour
	if l.Memory = 256 << 20; raced {
		l.Memory = 1 << 40
	}
	if change != nil {
		change(&l)
	}
	path := filepath.Join(t.TempDir(), "starts")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fifo) })
	return starts{t, isolated.New("byApp", []string{os.Args[0], "render-child", "byApp", path}, l), fifo, &[]int{}}
}

// children returns the ids of the children that were started. Each wrote its id before its first answer.
func (s starts) children() []int {
	s.Helper()
	text := make([]byte, 4096)
	n, err := syscall.Read(s.fifo, text)
	if err != nil && !errors.Is(err, syscall.EAGAIN) {
		s.Fatal(err)
	}
	for line := range strings.Lines(string(text[:max(0, n)])) {
		var id int
		if _, err := fmt.Sscan(line, &id); err != nil {
			s.Fatal(err)
		}
		*s.ids = append(*s.ids, id)
	}
	return slices.Clone(*s.ids)
}

// render renders an app, and returns the text of the error.
func (s starts) render(project, app string) string {
	s.Helper()
	res, err := s.Render(s.Context(), appOf(project, app, nil))
	if err != nil {
		return err.Error()
	}
	if strings.HasPrefix(app, "tells") && (len(res.Objects) != 1 || res.Objects[0].ID.Name != app) {
		s.Errorf("%s rendered to %v", app, res)
	}
	return ""
}

// A child that renders a chart without an end does not outlive a parent that is killed.
func TestChildrenEndWithAParentThatIsKilled(t *testing.T) {
	const parentEnv = "ISOLATED_TEST_FIFO" // set in the parent that the test kills
	if fifo := os.Getenv(parentEnv); fifo != "" {
		l := isolated.Default()
		l.Memory, l.Work, l.Time = 1<<40, time.Hour, time.Hour
		r := isolated.New("byApp", []string{os.Args[0], "render-child", "byApp", fifo}, l)
		_, err := r.Render(t.Context(), appOf("p", "loops", nil))
		t.Fatal(err)
	}
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "starts")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildrenEndWithAParentThatIsKilled$")
	parent.Env = append(os.Environ(), parentEnv+"="+fifo)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fifo)
	if err != nil {
		t.Fatal(err)
	}
	var id int
	if _, err := fmt.Sscan(string(text), &id); err != nil {
		t.Fatal(err)
	}
	for processorTicks(t, id) < 50 { // it renders
		time.Sleep(20 * time.Millisecond)
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	for end := time.Now().Add(time.Minute); syscall.Kill(id, 0) == nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			_ = syscall.Kill(id, syscall.SIGKILL)
			t.Fatal("the child goes on a minute after its parent was killed")
		}
	}
}

// processorTicks returns how long a process has computed, in hundredths of a second.
func processorTicks(t *testing.T, id int) (ticks int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	if _, err := fmt.Sscan(strings.Fields(rest)[11], &ticks); err != nil {
		t.Fatal(err)
	}
	return ticks
}

func TestChartsOfAProjectShareAChild(t *testing.T) {
	t.Parallel()
	s := countStarts(t, nil)
	for i := range 5 {
		for _, project := range []string{"a", "b"} {
			if err := s.render(project, fmt.Sprintf("tells-%d", i)); err != "" {
				t.Errorf("%s, chart %d: %s", project, i, err)
			}
		}
	}
	if err := s.render("a", "faults"); !strings.Contains(err, "f.yaml:3: is odd") {
		t.Errorf("a faulty chart: %s", err)
	}
	if err := s.render("a", "tells-after"); err != "" {
		t.Errorf("after a faulty chart: %s", err)
	}
	if n := len(s.children()); n != 2 {
		t.Errorf("%d children rendered the charts of two projects, want 2", n)
	}
	for range 2 { // charts without a project
		s.render("", "tells")
	}
	if n := len(s.children()); n != 4 {
		t.Errorf("%d children were started, want one more for each chart without a project", n)
	}
}

// What a chart does to its child harms no later chart, and no chart is blamed for what an earlier one did.
func TestAChildEndsWithAChartThatMisbehaves(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		how, want string
		starts    int // with a chart before and one after
		change    func(*isolated.Limits)
	}{
		{"loops", "took more than 300ms of processor time", 3, func(l *isolated.Limits) { l.Work = 300 * time.Millisecond }}, // short, then long; one more afterwards
		{"waits", "was not done after 2s", 2, func(l *isolated.Limits) { l.Time = 2 * time.Second }},
		{"grows", "needs more than 256 MiB", 3, nil}, // a new child confirms it
		{"shouts", "renders to more than 1048576 bytes", 3, func(l *isolated.Limits) { l.Output = 1 << 20 }},
		{"panics", "panic: on purpose", 3, nil},
		{"babbles", "no JSON", 3, nil},
		{"remembers", "", 2, nil}, // it leaves much memory behind
	} {
		t.Run(tt.how, func(t *testing.T) {
			t.Parallel()
			if raced && (tt.how == "grows" || tt.how == "remembers") {
				t.Skip("children are not limited under the race detector")
			}
			s := countStarts(t, tt.change)
			before, got, after := s.render("p", "tells-before"), s.render("p", tt.how), s.render("p", "tells-after")
			if before != "" || after != "" {
				t.Errorf("the chart before: %q; the one after: %q", before, after)
			}
			if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("the chart itself: %q, want %q", got, tt.want)
			}
			if ids := s.children(); len(ids) != tt.starts {
				t.Errorf("children %v were started, want %d", ids, tt.starts)
			}
		})
	}
}

// A child that has answered renders the next chart, however long it computed after the answer.
func TestProcessorTimeEndsWithTheAnswer(t *testing.T) {
	t.Parallel()
	s := countStarts(t, func(l *isolated.Limits) { l.Work = time.Second }) // a short rendering takes a tenth
	for _, app := range []string{"lingers", "tells-after"} {
		if err := s.render("p", app); err != "" {
			t.Errorf("%s: %s", app, err)
		}
	}
	if ids := s.children(); len(ids) != 1 {
		t.Errorf("children %v were started, want 1", ids)
	}
}

func TestChildrenEndWithoutWork(t *testing.T) {
	t.Parallel()
	s := countStarts(t, func(l *isolated.Limits) { l.Idle, l.Parallel = 20*time.Millisecond, 8 })
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { s.render("p", fmt.Sprintf("tells-%d", i)) })
	}
	all.Wait()
	ids := s.children()
	for len(ids) > 0 { // the test's time limit ends this
		time.Sleep(time.Millisecond)
		ids = slices.DeleteFunc(ids, func(id int) bool { return errors.Is(syscall.Kill(id, 0), syscall.ESRCH) })
	}
}

func TestFewChildrenAreIdle(t *testing.T) {
	t.Parallel()
	s := countStarts(t, nil)
	for i := range 7 {
		if err := s.render(fmt.Sprint("p", i), "tells"); err != "" {
			t.Error(err)
		}
	}
	alive := 0
	for _, id := range s.children() {
		if syscall.Kill(id, 0) == nil {
			alive++
		}
	}
	if alive != 4 {
		t.Errorf("%d children are idle, want 4", alive)
	}
}
