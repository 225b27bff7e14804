package session

import (
	"io"
	"os"

	"golang.org/x/term"
)

// System is the environment of a run.
type System struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Home     string // the directory of .emco.yaml; empty for none
	Terminal bool   // Out is a terminal
	Columns  int    // the width of the terminal; 0 is unlimited
	// Interactive means that a person sees the output and can answer questions.
	Interactive bool
}

// FromOS returns the environment of the process.
func FromOS() System {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	isTerminal := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
	columns, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		columns = 0 // a pipe
	}
	return System{
		Columns: columns, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Home: home,
		Terminal:    isTerminal(os.Stdout),
		Interactive: isTerminal(os.Stdin) && isTerminal(os.Stdout) && isTerminal(os.Stderr),
	}
}
