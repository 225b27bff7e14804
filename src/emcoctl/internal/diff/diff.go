// Package diff compares texts line by line.
package diff

import (
	"fmt"
	"slices"
	"strings"
)

// around is how many equal lines a hunk shows before and after what differs.
const around = 3

// Names are what the two sides are called.
type Names struct{ Before, After string }

// Unified returns the unified diff of two texts, as diff -u prints it: empty if they are
// equal. An empty text has no lines.
func Unified(n Names, before, after string) string {
	a, b := lines(before), lines(after)
	edits := script(a, b)
	var out strings.Builder
	for _, h := range hunks(edits) {
		if out.Len() == 0 {
			fmt.Fprintf(&out, "--- %s\n+++ %s\n", n.Before, n.After)
		}
		h.write(&out)
	}
	return out.String()
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// edit is one line of the comparison: kept, taken away or added.
type edit struct {
	sign byte // ' ', '-' or '+'
	text string
}

// script lists all lines of both texts: what is taken away stands before what is added
// in its place.
func script(a, b []string) []edit {
	var out []edit
	i, j := 0, 0
	for _, m := range append(match(a, b, 0, 0), pair{len(a), len(b)}) {
		for ; i < m.a; i++ {
			out = append(out, edit{'-', a[i]})
		}
		for ; j < m.b; j++ {
			out = append(out, edit{'+', b[j]})
		}
		if i < len(a) && j < len(b) {
			out = append(out, edit{' ', a[i]})
			i, j = i+1, j+1
		}
	}
	return out
}

// pair is a line that both texts have.
type pair struct{ a, b int }

// maxTable bounds the table of a comparison that finds the longest common sequence;
// longer texts are cut at lines that both have just once.
const maxTable = 1 << 20

// match returns a common sequence of a and b, which begin at line i and j of the whole.
func match(a, b []string, i, j int) []pair {
	var head, tail []pair
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, pair{i, j})
		a, b, i, j = a[1:], b[1:], i+1, j+1
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
		tail = append(tail, pair{i + len(a), j + len(b)})
	}
	slices.Reverse(tail)
	var middle []pair
	if len(a)*len(b) <= maxTable {
		middle = longest(a, b, i, j)
	} else {
		middle = anchored(a, b, i, j)
	}
	return slices.Concat(head, middle, tail)
}

// longest finds the longest common sequence by the table of the lengths of all suffixes.
func longest(a, b []string, i, j int) (out []pair) {
	width := len(b) + 1
	length := make([]int32, (len(a)+1)*width)
	for x := len(a) - 1; x >= 0; x-- {
		for y := len(b) - 1; y >= 0; y-- {
			if a[x] == b[y] {
				length[x*width+y] = length[(x+1)*width+y+1] + 1
			} else {
				length[x*width+y] = max(length[(x+1)*width+y], length[x*width+y+1])
			}
		}
	}
	for x, y := 0, 0; x < len(a) && y < len(b); {
		switch {
		case a[x] == b[y]:
			out = append(out, pair{i + x, j + y})
			x, y = x+1, y+1
		case length[(x+1)*width+y] >= length[x*width+y+1]:
			x++
		default:
			y++
		}
	}
	return out
}

// anchored matches lines that stand once in each text, as long as they come in the same
// order, and compares what lies between them. Texts without such lines have nothing in common.
func anchored(a, b []string, i, j int) (out []pair) {
	x, y := 0, 0
	anchors := rising(unique(a, b))
	if len(anchors) == 0 {
		return nil
	}
	for _, p := range anchors {
		out = append(out, match(a[x:p.a], b[y:p.b], i+x, j+y)...)
		out = append(out, pair{i + p.a, j + p.b})
		x, y = p.a+1, p.b+1
	}
	return append(out, match(a[x:], b[y:], i+x, j+y)...)
}

// unique returns the lines that stand once in a and once in b, in the order of a.
func unique(a, b []string) (out []pair) {
	inA, inB, at := map[string]int{}, map[string]int{}, map[string]int{}
	for _, line := range a {
		inA[line]++
	}
	for y, line := range b {
		inB[line]++
		at[line] = y
	}
	for x, line := range a {
		if inA[line] == 1 && inB[line] == 1 {
			out = append(out, pair{x, at[line]})
		}
	}
	return out
}

// rising returns the longest part of pairs of which b rises, too.
func rising(pairs []pair) []pair {
	var ends []int // ends[n] is the last pair of the best sequence of n+1 pairs
	before := make([]int, len(pairs))
	for k, p := range pairs {
		n, _ := slices.BinarySearchFunc(ends, p.b, func(e, b int) int { return pairs[e].b - b })
		before[k] = -1
		if n > 0 {
			before[k] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, k)
		}
		ends[n] = k
	}
	if len(ends) == 0 {
		return nil
	}
	out := make([]pair, len(ends))
	for n, k := len(ends)-1, ends[len(ends)-1]; n >= 0; n, k = n-1, before[k] {
		out[n] = pairs[k]
	}
	return out
}

// hunk is a part of the comparison that is shown, with its first lines, from 0.
type hunk struct {
	a, b  int
	edits []edit
}

// hunks cuts out what differs, with a few equal lines around it.
func hunks(edits []edit) (out []hunk) {
	a, b, end := 0, 0, 0 // end: of the last hunk, in edits
	starts := make([]pair, len(edits))
	for k, e := range edits {
		starts[k] = pair{a, b}
		if e.sign != '+' {
			a++
		}
		if e.sign != '-' {
			b++
		}
	}
	for k, e := range edits {
		if e.sign == ' ' {
			continue
		}
		from, to := max(k-around, 0), min(k+around+1, len(edits))
		if len(out) > 0 && from <= end {
			last := &out[len(out)-1]
			last.edits = append(last.edits, edits[end:max(to, end)]...)
		} else {
			out = append(out, hunk{starts[from].a, starts[from].b, slices.Clone(edits[from:to])})
		}
		end = max(to, end)
	}
	return out
}

func (h hunk) write(out *strings.Builder) {
	minus, plus := 0, 0
	for _, e := range h.edits {
		if e.sign != '+' {
			minus++
		}
		if e.sign != '-' {
			plus++
		}
	}
	fmt.Fprintf(out, "@@ -%s +%s @@\n", span(h.a, minus), span(h.b, plus))
	for _, e := range h.edits {
		fmt.Fprintf(out, "%c%s\n", e.sign, e.text)
	}
}

// span is the first line, from 1, and the number of lines; an empty span names the line before it.
func span(first, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", first)
	case 1:
		return fmt.Sprint(first + 1)
	}
	return fmt.Sprintf("%d,%d", first+1, n)
}
