package figures

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Markdown returns the tables of a run. source is the name of the JSON file.
func (r Run) Markdown(source string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "# Figures of the %s set\n\n", r.Set)
	fmt.Fprintf(&out, "Generated from [%s](%s) by `make bench`; do not edit. [performance.md](../performance.md) explains the words.\n\n", source, source)
	r.head(&out)
	for _, m := range Metrics() {
		if groups := r.groups(m.Name); len(groups) > 0 {
			fmt.Fprintf(&out, "\n## %s %s\n\n%s\n", m.Name, m.Title, m.Text)
			r.table(&out, m, groups)
		}
	}
	r.omissions(&out)
	r.failures(&out)
	return out.String()
}

func (r Run) head(out *strings.Builder) {
	if len(r.Parts) > 0 {
		r.parts(out)
	} else {
		r.origin(out)
	}
	fmt.Fprint(out, "\n| round | write and fsync of 4 KiB, ms | SHA-1 and zlib, MB/s | empty push, ms | load |\n|---|---|---|---|---|\n")
	for _, c := range r.Calibration {
		fmt.Fprintf(out, "| %s | %.2f | %.0f | %.1f | %.1f |\n", strings.TrimSpace(fmt.Sprintf("%s %d", c.Part, c.Round)), c.FsyncMS, c.HashMBs, c.PushMS, c.LoadThen)
	}
}

// origin is when, where and of what a run was measured at once.
func (r Run) origin(out *strings.Builder) {
	m := r.Machine
	fmt.Fprintf(out, "%s UTC, %.0f s. %s. Load before: %.2f, at the end: %.2f.\n", date(r.When), r.Took, m, m.LoadBefore, m.LoadAfter)
	if m.busy() {
		fmt.Fprintf(out, "**Other programs used the cores, with a load of %.0f before the run: %s.**\n", m.LoadBefore, doubt)
	}
	fmt.Fprintf(out, "Commit %s, %s, %s. Cells stop after %.0f s.\n", r.Versions.commit(), r.Versions.Go, r.Versions.Git, r.Cap)
}

// doubt is what a busy machine does to figures.
const doubt = "the seconds are not those of a quiet machine, and a ratio of few rounds depends on when each peer ran"

// parts is when, where and of what each part was measured, and which parts were not.
func (r Run) parts(out *strings.Builder) {
	if len(r.Missing) > 0 {
		fmt.Fprintf(out, "**Not measured yet: %s.**\n\n", strings.Join(r.Missing, ", "))
	}
	fmt.Fprintf(out, "Measured in parts, each by itself. Cells stop after %.0f s.\n", r.Cap)
	if slices.ContainsFunc(r.Parts, r.disturbed) {
		fmt.Fprintf(out, "**Other programs used the cores before the parts whose load is bold: %s.**\n", doubt)
	}
	fmt.Fprint(out, "\n| part | UTC | s | commit | machine | load before | at the end | programs |\n|---|---|---|---|---|---|---|---|\n")
	for _, p := range r.Parts {
		load := fmt.Sprintf("%.2f", p.Machine.LoadBefore)
		if r.disturbed(p) {
			load = "**" + load + "**"
		}
		fmt.Fprintf(out, "| %s | %s | %.0f | %s | %s | %s | %.2f | %s, %s |\n", p.Name, date(p.When), p.Took, p.Versions.commit(), p.Machine, load, p.Machine.LoadAfter, p.Versions.Go, p.Versions.Git)
	}
}

// ownLoad is how much the load may rise between the end of a part and the beginning of the next one, which measures the machine first.
const ownLoad = 0.5

// disturbed reports whether other programs used the cores before a part. The load before a part that follows another one within a minute is that of the other part.
func (r Run) disturbed(p Part) bool {
	return p.Machine.busy() && !slices.ContainsFunc(r.Parts, func(before Part) bool {
		pause := p.When.Sub(before.When) - time.Duration(before.Took*float64(time.Second))
		return before.When.Before(p.When) && pause > -time.Second && pause < time.Minute && p.Machine.LoadBefore < before.Machine.LoadAfter+ownLoad
	})
}

func date(t time.Time) string { return t.UTC().Format("2 January 2006 15:04") }

// String describes a machine in tables.
func (m Machine) String() string {
	return fmt.Sprintf("%d cores (%s), %d MiB of memory, %s, %s", m.Cores, m.CPU, m.MemoryMiB, m.OS, m.FileSystem)
}

// busy reports whether other programs used the cores before a run.
func (m Machine) busy() bool { return m.LoadBefore > float64(m.Cores) }

func (v Versions) commit() string {
	if v.Dirty {
		return v.Commit + " with changes"
	}
	return v.Commit
}

func (r Run) table(out *strings.Builder, m Metric, groups []caseGroup) {
	columns := used(m.Columns, groups)
	for _, g := range groups {
		by := m.yardstick(g)
		fmt.Fprintf(out, "\n%s:\n\n| peer | rounds |", g.name)
		for _, c := range columns {
			fmt.Fprintf(out, " %s |", c.Head)
		}
		fmt.Fprintf(out, " to `%s` |  |\n|---|---|%s---|---|\n", by.base.peer, strings.Repeat("---|", len(columns)))
		for _, c := range g.cells {
			r.row(out, columns, c, by)
		}
	}
}

// used leaves out columns without values.
func used(columns []Column, groups []caseGroup) (out []Column) {
	for _, col := range columns {
		has := false
		for _, g := range groups {
			for _, c := range g.cells {
				has = has || len(c.values(col.Name)) > 0
			}
		}
		if has {
			out = append(out, col)
		}
	}
	return out
}

func (r Run) row(out *strings.Builder, columns []Column, c peerCase, by baseline) {
	fmt.Fprintf(out, "| %s | %d |", c.peer, c.rounds())
	for i, col := range columns {
		fmt.Fprintf(out, " %s |", r.value(c, col, i == 0))
	}
	fmt.Fprintf(out, " %s | %s |\n", by.compared(c), c.note())
}

func (r Run) value(c peerCase, col Column, first bool) string {
	v := c.median(col.Name)
	switch {
	case known(v):
		return fmt.Sprintf(col.Form, v)
	case first && c.over():
		return fmt.Sprintf("> %.0f", r.Cap)
	case first && c.failed():
		return "failed"
	}
	return ""
}

// baseline is the base of a group's comparison, and its column.
type baseline struct {
	base  peerCase
	value string
}

// yardstick of a group is the base of the metric, in its first column. For peers that wait for a
// provider's limits, it is our writer there, with the waiting time; otherwise it is the program.
func (m Metric) yardstick(g caseGroup) baseline {
	for _, by := range []struct{ peer, value string }{{m.Base, m.Columns[0].Name}, {WriterGitHub, m.hosted()}, {Process, m.Columns[0].Name}} {
		if i := slices.IndexFunc(g.cells, func(c peerCase) bool { return c.peer == by.peer }); i >= 0 {
			return baseline{base: g.cells[i], value: by.value}
		}
	}
	return baseline{base: peerCase{peer: m.Base}, value: m.Columns[0].Name}
}

// hosted is the column that compares peers that wait for a provider's limits.
func (m Metric) hosted() string {
	if slices.ContainsFunc(m.Columns, func(c Column) bool { return c.Name == virtual.Name }) {
		return virtual.Name
	}
	return m.Columns[0].Name
}

// compared is the ratio to the base with its interval.
func (y baseline) compared(c peerCase) string {
	if c.peer == y.base.peer {
		return ""
	}
	median, low, high := c.ratio(y.base, y.value)
	switch {
	case !known(median):
		return ""
	case known(low) && known(high) && low != high:
		return fmt.Sprintf("%s (%s to %s)", times(median), times(low), times(high))
	}
	return times(median)
}

// times writes a ratio with three significant digits.
func times(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f ×", math.Round(v))
	case v >= 10:
		return fmt.Sprintf("%.1f ×", v)
	}
	return fmt.Sprintf("%.2f ×", v)
}

// omissions lists unmeasured parts of the set.
func (r Run) omissions(out *strings.Builder) {
	if len(r.Left) == 0 {
		return
	}
	fmt.Fprint(out, "\n## Left out\n\n")
	for _, what := range r.Left {
		fmt.Fprintf(out, "- %s\n", what)
	}
}

func (r Run) failures(out *strings.Builder) {
	failed := r.Failures()
	if len(failed) == 0 {
		fmt.Fprint(out, "\nNo run failed: every result was the desired one, and git found no damage.\n")
		return
	}
	fmt.Fprint(out, "\n## Runs that failed\n\n")
	for _, s := range failed {
		fmt.Fprintf(out, "- %s, %s, %s, round %d: %s\n", s.Metric, s.Case, s.Peer, s.Round, strings.ReplaceAll(s.Failed, "\n", " "))
	}
}
