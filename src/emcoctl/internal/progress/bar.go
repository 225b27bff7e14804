package progress

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
)

// bar is a line on a terminal that shows how many apps on clusters have reached the goal, how
// many do per second, and how long the rest takes at that rate.
type bar struct {
	w       io.Writer
	columns int
	name    string // the last word of the deployment's name
	goal    Goal
	began   time.Time
	first   int // had reached the goal at the first look
	most    int // most pairs that were seen: of a terminated deployment, the others are gone
	drawn   bool
}

func newBar(o Options) *bar {
	return &bar{w: o.Log, columns: o.Columns, name: o.Name[strings.LastIndexByte(o.Name, '/')+1:], goal: o.Goal}
}

// draw shows a status in place of the one before.
func (b *bar) draw(s v2.Status, now time.Time) {
	done, total := b.count(s)
	if b.began.IsZero() {
		b.began, b.first = now, done
	}
	b.print(b.line(state(s), done, total, now.Sub(b.began)))
}

// print replaces the line, cut to the width of the terminal. The cursor stays behind it.
func (b *bar) print(line string) {
	text := []rune(line)
	fmt.Fprintf(b.w, "\r\x1b[K%s", string(text[:min(len(text), max(b.columns-1, 0))]))
	b.drawn = true
}

// end ends the line.
func (b *bar) end() {
	if b.drawn {
		fmt.Fprintln(b.w)
	}
}

// count returns how many pairs have reached the goal, and how many there are.
func (b *bar) count(s v2.Status) (done, total int) {
	pairs := Pairs(s)
	b.most = max(b.most, len(pairs)+len(s.Leaving))
	if b.goal == Terminated {
		return b.most - len(pairs) - len(s.Leaving), b.most
	}
	for _, p := range pairs {
		if p.Phase == "Applied" && (b.goal == Instantiated || b.goal == Deployed || len(objects(p, b.goal)) == 0) {
			done++
		}
	}
	return done, len(pairs)
}

// line returns the line, with a bar if there is room.
func (b *bar) line(state string, done, total int, took time.Duration) string {
	head := printable.Line(b.name + " " + state)
	tail := fmt.Sprintf(" %d/%d", done, total)
	if rate := float64(done-b.first) / took.Seconds(); took > 0 && done > b.first {
		tail += fmt.Sprintf(", %.1f/s", rate)
		if done < total {
			left := time.Duration(float64(total-done) / rate * float64(time.Second))
			tail += fmt.Sprintf(", %s left", max(left, time.Second).Round(time.Second))
		}
	}
	room := b.columns - 1 - utf8.RuneCountInString(head) - utf8.RuneCountInString(tail) - len(" []")
	if total == 0 || room < minBar {
		return head + tail
	}
	room = min(room, maxBar)
	full := room * done / total
	return head + " [" + strings.Repeat("#", full) + strings.Repeat(".", room-full) + "]" + tail
}

// The width of the bar within the line.
const (
	minBar = 5
	maxBar = 30
)
