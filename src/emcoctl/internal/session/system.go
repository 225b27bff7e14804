package session

import (
	"cmp"
	"io"
	"os"
	"os/exec"
	"runtime"

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
	// Browser opens a page for the person; nil without a browser.
	Browser func(page string) error
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
		Browser:     browser(runtime.GOOS, os.Getenv),
		Interactive: isTerminal(os.Stdin) && isTerminal(os.Stdout) && isTerminal(os.Stderr),
	}
}

// browser returns what opens a page on an operating system: $BROWSER, or the system's own way where there is a
// display; nil if there is neither.
func browser(goos string, getenv func(string) string) func(page string) error {
	program, args := getenv("BROWSER"), []string(nil)
	switch {
	case program != "":
	case goos == "darwin":
		program = "open"
	case goos == "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler"}
	case cmp.Or(getenv("DISPLAY"), getenv("WAYLAND_DISPLAY")) != "":
		program = "xdg-open"
	}
	path, err := exec.LookPath(program)
	if program == "" || err != nil {
		return nil
	}
	return func(page string) error {
		c := exec.Command(path, append(args, page)...)
		if err := c.Start(); err != nil {
			return err
		}
		go func() { _ = c.Wait() }() // a browser that does not open is noticed by the person
		return nil
	}
}
