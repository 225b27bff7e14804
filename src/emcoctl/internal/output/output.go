// Package output prints the results of commands: documents as tables, JSON, YAML or templates,
// outcomes in a line each, upstream's lines for scripts, and errors with advice. Sort orders a list by the value at a path.
package output

import (
	"io"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/document"
)

// Outcome is the outcome for one document.
type Outcome string

// The outcomes.
const (
	Created    Outcome = "created"
	Configured Outcome = "configured"
	Unchanged  Outcome = "unchanged"
	Deleted    Outcome = "deleted"
	Accepted   Outcome = "accepted" // an action that continues after the answer
	Fetched    Outcome = "fetched"
	Valid      Outcome = "valid"     // checked, by a dry run without a server
	Absent     Outcome = "not found" // with --ignore-not-found
	Failed     Outcome = "failed"
)

// Call is one request that was answered.
type Call struct {
	Method string
	URL    string
	Status int
	Body   []byte
}

// Result is the result for one document or anchor.
type Result struct {
	Verb    anchor.Verb
	Path    string // of the item or the action, below /v2
	At      document.Position
	Outcome Outcome
	DryRun  bool   // nothing was changed
	Status  int    // of the last answer, 0 if there was none
	Body    []byte // of a get
	Note    string // a note on a success
	Err     error  // if Failed
	Advice  string // what to do about Err; a general one is printed if empty
	Below   string // the document above it that failed before, if Err follows from that
}

// Printer shows calls and results as they arrive. Begin is called once before, End once
// after all others.
type Printer interface {
	Begin(notice string)
	Called(c Call)
	Done(r Result)
	End() error
}

// Format is a form of output.
type Format string

// The formats. Lines are upstream's.
const (
	Human Format = "human"
	Lines Format = "emco"
	JSON  Format = "json"
	YAML  Format = "yaml"
	Name  Format = "name"
	Plain Format = "table" // the same as human
	Wide  Format = "wide"  // human with more columns
)

// Formats lists them for usage texts.
var Formats = []string{
	string(Human), string(Lines), string(JSON), string(YAML), string(Name), string(Plain), string(Wide),
	jsonPath + "=TEMPLATE", goTemplate + "=TEMPLATE", customColumns + "=HEAD:PATH,...",
}

// Structured reports whether Encode writes the format: JSON, YAML, or a template.
func (f Format) Structured() bool {
	return f == JSON || f == YAML || f.template()
}

// Options configure a Printer.
type Options struct {
	Out, Err io.Writer
	Format   Format
	Many     bool // results are a list even if there is only one
}

// New returns the printer for a format; Invalid if the format is unknown.
func New(o Options) (Printer, error) {
	switch o.Format {
	case Human, Plain, Wide:
		return &humanPrinter{o: o, counts: map[Outcome]int{}}, nil
	case Lines:
		return &linePrinter{o}, nil
	}
	if o.Format.Structured() {
		return &listPrinter{o: o}, nil
	}
	if o.Format == Name {
		return &namePrinter{o}, nil
	}
	return nil, errs.New(errs.Invalid, `there is no output format "`+string(o.Format)+`"`)
}
