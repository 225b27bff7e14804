// Package pages runs the commands of documentation pages as a reader does: in order, in one shell.
//
//	```sh                  commands; each must succeed
//	```text                after commands: lines of their output, in order; "…" stands for any text
//	<!-- exit N -->        before commands: the last one ends with this exit code
//	<!-- yours -->         before commands: readers write their own values; the caller sets the variables
//	<!-- not run: WHY -->  before commands: only readers run them
package pages

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Page is a page of the documentation.
type Page struct {
	Name   string
	Blocks []Block
}

// Block is a block of commands.
type Block struct {
	Line     int      // of the first command
	Section  []string // the headings above it, the outermost first
	Commands string
	Output   []string // that the page shows
	Exit     int
	Yours    bool
	NotRun   string // why only readers run it
}

// In reports whether the block is below a heading.
func (b Block) In(heading string) bool {
	for _, h := range b.Section {
		if h == heading {
			return true
		}
	}
	return false
}

var (
	heading = regexp.MustCompile(`^(#+) (.+)$`)
	note    = regexp.MustCompile(`^<!-- (?:(exit) (\d+)|(yours)|(not run): (.+)) -->$`)
	fence   = regexp.MustCompile("^( *)```([a-z]*)$")
)

// parser reads a page line by line.
type parser struct {
	page    Page
	section []string
	next    Block  // notes about the next block of commands
	noted   int    // the line of the last note; 0 if it was used
	kind    string // of the open block; empty outside of blocks
	indent  string // of the open block
	text    []string
	last    *Block // the commands whose output may follow
}

// Parse reads a page.
func Parse(name, text string) (Page, error) {
	p := parser{page: Page{Name: name}}
	for i, line := range strings.Split(text, "\n") {
		if err := p.line(i+1, line); err != nil {
			return Page{}, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
	}
	if p.kind != "" || p.noted != 0 {
		return Page{}, fmt.Errorf("%s: a block does not end, or a note stands before no commands", name)
	}
	return p.page, nil
}

func (p *parser) line(number int, line string) error {
	f := fence.FindStringSubmatch(line)
	switch {
	case p.kind == "" && f != nil:
		return p.open(number, f[1], f[2])
	case p.kind != "" && f != nil && f[2] == "":
		p.shut()
	case p.kind != "":
		p.text = append(p.text, strings.TrimPrefix(line, p.indent))
	case strings.HasPrefix(strings.TrimSpace(line), "<!-- "):
		return p.note(number, strings.TrimSpace(line))
	case strings.TrimSpace(line) != "":
		p.last = nil
		if h := heading.FindStringSubmatch(line); h != nil {
			level := min(len(h[1])-1, len(p.section))
			p.section = append(p.section[:level:level], h[2])
		}
		if p.noted != 0 {
			return fmt.Errorf("the note in line %d stands before no commands", p.noted)
		}
	}
	return nil
}

func (p *parser) open(number int, indent, kind string) error {
	switch {
	case kind == "":
		return fmt.Errorf("a block names its language: sh for commands, text for output")
	case kind != "sh" && p.noted != 0:
		return fmt.Errorf("the note in line %d stands before a block of %s, not before commands", p.noted, kind)
	}
	p.kind, p.indent, p.text = kind, indent, nil
	if kind == "sh" {
		p.next.Line, p.next.Section = number+1, p.section
	}
	return nil
}

func (p *parser) shut() {
	switch p.kind {
	case "sh":
		p.next.Commands = strings.Join(p.text, "\n") + "\n"
		p.page.Blocks = append(p.page.Blocks, p.next)
		p.last, p.next, p.noted = &p.page.Blocks[len(p.page.Blocks)-1], Block{}, 0
	case "text":
		if p.last != nil {
			p.last.Output = p.text
		}
		p.last = nil
	default:
		p.last = nil
	}
	p.kind = ""
}

func (p *parser) note(number int, line string) error {
	m := note.FindStringSubmatch(line)
	if m == nil {
		return nil // a comment of another kind
	}
	p.noted = number
	switch {
	case m[1] != "":
		exit, err := strconv.Atoi(m[2])
		p.next.Exit = exit
		return err
	case m[3] != "":
		p.next.Yours = true
	default:
		p.next.NotRun = m[5]
	}
	return nil
}
