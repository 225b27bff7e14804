package render

import (
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Fault is why an app could not be rendered.
type Fault struct {
	App    string
	File   string // path in the package or profile; empty if no file is to blame
	Line   int    // from 1; 0 if it is not known
	Reason string
}

// Error returns "app <app>: <file>:<line>: <reason>", without what is not known.
func (f *Fault) Error() string {
	text := "app " + f.App + ": "
	switch {
	case f.Line > 0:
		text += fmt.Sprintf("%s:%d: ", f.File, f.Line)
	case f.File != "":
		text += f.File + ": "
	}
	return text + f.Reason
}

// Invalid returns the fault as an Invalid error.
func (f *Fault) Invalid() error { return errs.E(errs.Invalid, "", "", f) }
