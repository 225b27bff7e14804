package manifest

import (
	"fmt"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// maxProblems bounds the problems that are reported of one set of manifests.
const maxProblems = 50

// Problem is an error in one document.
type Problem struct {
	Source   string // file
	Document int    // number of the document within the file, from 1; 0 if it is not known
	Line     int    // line within the file, from 1; 0 if it is not known
	Reason   string
}

// Error returns "<source>:<line>: document <n>: <reason>", without unknown parts.
func (p Problem) Error() string {
	at := p.Source
	if p.Line > 0 {
		at = fmt.Sprintf("%s:%d", at, p.Line)
	}
	if p.Document > 0 {
		at = fmt.Sprintf("%s: document %d", at, p.Document)
	}
	return at + ": " + p.Reason
}

// Problems are the errors in a set of manifests, up to a cap. Errors of Parse and Complete
// hold one; errors.AsType finds it.
type Problems []Problem

// Error returns one line per problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// err returns the problems as an Invalid error, nil if there are none.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	return errs.E(errs.Invalid, "", "", ps)
}

// add appends p, up to the cap.
func (ps *Problems) add(p Problem) {
	switch n := len(*ps); {
	case n < maxProblems:
		*ps = append(*ps, p)
	case n == maxProblems:
		p.Reason = "more problems are left out"
		*ps = append(*ps, p)
	}
}
