package output

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
)

// Screen is a terminal: tables are not wider than its columns.
type Screen struct {
	io.Writer
	Columns int
}

// gap is the space between two columns of a table.
const gap = 3

// Table aligns cells in columns. Empty cells print "-"; no cell has a line break. On a Screen
// that is too narrow, cells continue on further lines, between words; if even that does not fit,
// each row is printed as lines of heads and values.
type Table struct {
	w     io.Writer
	width int // 0: unlimited
	rows  [][]string
	cells []string
}

// NewTable returns an empty table; nothing is written before Flush.
func NewTable(w io.Writer) *Table {
	t := &Table{w: w}
	if s, ok := w.(Screen); ok {
		t.width = s.Columns
	}
	return t
}

// Cell adds a cell to the row.
func (t *Table) Cell(s string) {
	s = printable.Line(s)
	if s == "" {
		s = "-"
	}
	t.cells = append(t.cells, s)
}

// End ends the row.
func (t *Table) End() {
	t.rows = append(t.rows, t.cells)
	t.cells = nil
}

// Row adds a row.
func (t *Table) Row(cells ...string) {
	for _, cell := range cells {
		t.Cell(cell)
	}
	t.End()
}

// Flush writes the table. It drops errors of the writer: a closed terminal has no reader.
func (t *Table) Flush() {
	widths, fits := t.widths()
	if !fits {
		t.records()
		return
	}
	for _, row := range t.rows {
		t.row(row, widths)
	}
}

// widths returns the widths of the columns: those of the longest cells, or narrower ones that
// fit the screen. It does not fit if a column would be narrower than its longest word.
func (t *Table) widths() (widths []int, fits bool) {
	var words []int // widths of the longest words
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths, words = append(widths, 0), append(words, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			for _, word := range split(cell) {
				words[i] = max(words[i], utf8.RuneCountInString(strings.TrimSpace(word)))
			}
		}
	}
	if t.width == 0 {
		return widths, true
	}
	excess := gap*(len(widths)-1) - t.width
	for _, w := range widths {
		excess += w
	}
	for ; excess > 0; excess-- {
		widest := -1
		for i := range widths {
			if widths[i] > words[i] && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return nil, false
		}
		widths[widest]--
	}
	return widths, true
}

// row writes one row, on as many lines as its longest cell needs.
func (t *Table) row(row []string, widths []int) {
	cells := make([][]string, len(row))
	lines := 1
	for i, cell := range row {
		cells[i] = fold(cell, widths[i])
		lines = max(lines, len(cells[i]))
	}
	for n := range lines {
		var line strings.Builder
		for i := range cells {
			text := ""
			if n < len(cells[i]) {
				text = cells[i][n]
			}
			line.WriteString(text)
			if i < len(cells)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+gap))
			}
		}
		fmt.Fprintln(t.w, strings.TrimRight(line.String(), " "))
	}
}

// records writes each row as lines of heads and values.
func (t *Table) records() {
	if len(t.rows) == 0 {
		return
	}
	heads, longest := t.rows[0], 0
	for _, head := range heads {
		longest = max(longest, len(head))
	}
	for i, row := range t.rows[1:] {
		if i > 0 {
			fmt.Fprintln(t.w)
		}
		for n, cell := range row {
			if n >= len(heads) || cell == "-" {
				continue
			}
			indent := strings.Repeat(" ", longest+2)
			text := strings.Join(fold(cell, max(t.width-longest-2, 1)), "\n"+indent)
			fmt.Fprintf(t.w, "%-*s%s\n", longest+2, heads[n], text)
		}
	}
}

// fold breaks a text into lines of a width, between words. A longer word stays whole.
func fold(text string, width int) (lines []string) {
	line := ""
	for _, word := range split(text) {
		if line != "" && utf8.RuneCountInString(strings.TrimRight(line+word, " ")) > width {
			lines, line = append(lines, strings.TrimRight(line, " ")), ""
		}
		line += word
	}
	return append(lines, strings.TrimRight(line, " "))
}

// split cuts a text after spaces, and after the separators of paths and lists.
func split(text string) (words []string) {
	for text != "" {
		i := strings.IndexAny(text, " /,+")
		if i < 0 {
			return append(words, text)
		}
		words, text = append(words, text[:i+1]), text[i+1:]
	}
	return slices.Clip(words)
}
