package output

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/config"
)

// linePrinter prints exactly what upstream's client prints: scripts cut out the JSON after the
// last "Response:", so nothing follows the body of a single get. Everything else goes to the
// error output.
type linePrinter struct{ o Options }

func (p *linePrinter) Begin(notice string) { fmt.Fprintln(p.o.Out, notice) }

func (p *linePrinter) Called(c Call) {
	fmt.Fprintf(p.o.Out, "---\n%s  --> URL: %s\nResponse Code: %d\n", c.Method, c.URL, c.Status)
	if body := bytes.TrimSpace(c.Body); len(body) > 0 {
		fmt.Fprintf(p.o.Out, "Response: %s\n", body)
	}
	if c.Status == 202 {
		fmt.Fprintf(p.o.Out, "API Response code 202. Waiting...\n")
	}
}

// Done prints nothing on the output for answered requests: Called has. A failure without an
// answer is a line of upstream's.
func (p *linePrinter) Done(r Result) {
	if r.Outcome == Unchanged || r.Outcome == Absent || r.DryRun {
		fmt.Fprintln(p.o.Err, line(r))
	}
	note(p.o, r)
	if r.Outcome != Failed {
		return
	}
	if fatal, ok := errors.AsType[*config.MissingSection](r.Err); ok {
		fmt.Fprintln(p.o.Out, fatal)
		explain(p.o.Err, r)
		return
	}
	if client.StatusOf(r.Err) == 0 {
		verb := string(r.Verb)
		fmt.Fprintf(p.o.Out, "%s: %s Error:  %s\n", strings.ToUpper(verb[:1])+verb[1:], r.Path, r.Err)
	}
	explain(p.o.Err, r)
}

func (p *linePrinter) End() error { return nil }

// humanPrinter prints a line for each result, and counts many.
type humanPrinter struct {
	o      Options
	counts map[Outcome]int
	dryRun bool // the results are those of a dry run
}

func (p *humanPrinter) Begin(string) {}
func (p *humanPrinter) Called(Call)  {}

// Done prints one line, the document that was read, or the explanation of a failure.
func (p *humanPrinter) Done(r Result) {
	p.counts[r.Outcome]++
	p.dryRun = r.DryRun
	switch r.Outcome {
	case Failed:
		explain(p.o.Err, r)
	case Fetched:
		show(p.o.Out, r, p.o.Many)
	default:
		fmt.Fprintln(p.o.Out, line(r))
	}
	note(p.o, r)
}

// countedFrom is the number of results from which people want their counts.
const countedFrom = 20

// End prints how many documents had each outcome, if they are many.
func (p *humanPrinter) End() error {
	var parts []string
	all := 0
	for _, outcome := range slices.Sorted(maps.Keys(p.counts)) {
		all += p.counts[outcome]
		parts = append(parts, fmt.Sprintf("%d %s", p.counts[outcome], outcome))
	}
	if all >= countedFrom {
		fmt.Fprintf(p.o.Err, "%d documents: %s%s\n", all, strings.Join(parts, ", "), dryRunMark(p.dryRun))
	}
	return nil
}

// line returns a result in one line.
func line(r Result) string {
	return r.Path + " " + string(r.Outcome) + dryRunMark(r.DryRun)
}

// dryRunMark ends a line about what was not done.
func dryRunMark(dry bool) string {
	if dry {
		return " (dry run)"
	}
	return ""
}

// note prints to the error output, so that a note is no result.
func note(o Options, r Result) {
	if r.Note != "" {
		fmt.Fprintf(o.Err, "note: %s\n", r.Note)
	}
}

// namePrinter prints the path of each document that was read, changed or deleted.
type namePrinter struct{ o Options }

func (p *namePrinter) Begin(string) {}
func (p *namePrinter) Called(Call)  {}

// Done prints paths that exist or did exist, as input for other commands.
func (p *namePrinter) Done(r Result) {
	note(p.o, r)
	switch r.Outcome {
	case Failed:
		explain(p.o.Err, r)
	case Fetched:
		for _, path := range paths(r) {
			fmt.Fprintln(p.o.Out, path)
		}
	case Absent:
	default:
		fmt.Fprintln(p.o.Out, r.Path)
	}
}

func (p *namePrinter) End() error { return nil }

// paths lists the items of a fetched collection, or the item itself.
func paths(r Result) []string {
	base, _, _ := strings.Cut(r.Path, "?")
	rows, ok := listOf(r.Body)
	if !ok {
		return []string{base}
	}
	out := make([]string, len(rows))
	for i, row := range rows {
		item, err := anchor.Item(base, anchor.Names{Name: row.name(), Version: row.At("spec.compositeAppVersion").String()})
		if err != nil {
			item = base // a name that the server should refuse
		}
		out[i] = item
	}
	return out
}
