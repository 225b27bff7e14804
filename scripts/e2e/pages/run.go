package pages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Options configure a run of a page.
type Options struct {
	Dir     string   // where the commands run
	Env     []string // in addition to the environment of this process
	Skip    []string // headings whose blocks do not run
	Replace []string // pairs of texts: ports of the page, and free ones
}

// end limits how long background programs of a page may run after SIGTERM.
const end = 10 * time.Second

// Run runs the commands of a page with bash. Every block must succeed and print the output of the page.
// It ends the programs that the page leaves in the background, and returns everything that was printed.
func (p Page) Run(ctx context.Context, o Options) (string, error) {
	script, ran, err := p.script(o)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "emco-page-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "page.sh")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		return "", err
	}
	out, err := os.Create(filepath.Join(dir, "output")) // a file: programs in the background may outlive bash
	if err != nil {
		return "", err
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, "bash", "-e", "-o", "pipefail", path)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = o.Dir, append(os.Environ(), o.Env...), out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	failed := cmd.Run()
	if cmd.Process != nil {
		endGroup(cmd.Process.Pid)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		return "", err
	}
	return string(text), p.judge(ran, string(text), failed)
}

// endGroup ends what is left of a process group.
func endGroup(leader int) {
	late := time.Now().Add(end)
	for syscall.Kill(-leader, syscall.SIGTERM) == nil {
		if time.Now().After(late) {
			_ = syscall.Kill(-leader, syscall.SIGKILL) // it may end between the check and the signal
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// marker precedes the output of each block.
const marker = "\x01block"

// script returns the text for bash, and the blocks that it runs.
func (p Page) script(o Options) (string, []Block, error) {
	var text strings.Builder
	var ran []Block
	actual := strings.NewReplacer(o.Replace...)
	for _, b := range p.Blocks {
		b.Commands = actual.Replace(b.Commands)
		switch {
		case b.NotRun != "" || slices.ContainsFunc(o.Skip, b.In):
			continue
		case b.Yours:
			if err := p.set(b, o.Env); err != nil {
				return "", nil, err
			}
			continue
		}
		text.WriteString("printf '\\n\\001block\\n'\n")
		if b.Exit == 0 {
			text.WriteString(b.Commands)
		} else {
			fmt.Fprintf(&text, "set +e\n(\n%s)\npage_exit=$?\nset -e\nif [ $page_exit != %d ]; then echo \"exit code $page_exit, the page has %[2]d\"; exit 1; fi\n", b.Commands, b.Exit)
		}
		ran = append(ran, b)
	}
	if len(ran) == 0 {
		return "", nil, fmt.Errorf("%s has no commands to run", p.Name)
	}
	return text.String(), ran, nil
}

var variable = regexp.MustCompile(`(?m)(?:^|\s)([A-Za-z_]+)=`)

// set checks that the caller sets each variable of a block that readers fill in.
func (p Page) set(b Block, env []string) error {
	for _, m := range variable.FindAllStringSubmatch(b.Commands, -1) {
		if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, m[1]+"=") }) {
			return fmt.Errorf("%s:%d: nothing sets the variable %s", p.Name, b.Line, m[1])
		}
	}
	return nil
}

// judge finds the block that failed, or one with another output than the page shows.
func (p Page) judge(ran []Block, output string, failed error) error {
	parts := strings.Split(output, "\n"+marker+"\n")[1:]
	if failed != nil {
		if len(parts) == 0 {
			return errors.Join(failed, errors.New(output))
		}
		b := ran[len(parts)-1]
		return fmt.Errorf("%s:%d: %w:\n%s\nit printed:\n%s", p.Name, b.Line, failed, b.Commands, parts[len(parts)-1])
	}
	if len(parts) != len(ran) {
		return fmt.Errorf("%s: %d of %d blocks ran: a command ends the shell", p.Name, len(parts), len(ran))
	}
	for i, b := range ran {
		if missing := Missing(b.Output, parts[i]); missing != "" {
			return fmt.Errorf("%s:%d: the output lacks, or has not in this order, %q:\n%s", p.Name, b.Line, missing, parts[i])
		}
	}
	return nil
}

// Missing returns the first line of a page that an output does not contain after the lines before it;
// empty if there is none. Times, hashes, ids and the width of columns may differ.
func Missing(lines []string, output string) string {
	rest := strings.Split(output, "\n")
	for _, line := range lines {
		if strings.TrimSpace(line) == "" || strings.TrimSpace(line) == "…" {
			continue
		}
		want := pattern(line)
		at := slices.IndexFunc(rest, func(l string) bool { return want.MatchString(squeezed(l)) })
		if at < 0 {
			return line
		}
		rest = rest[at+1:]
	}
	return ""
}

// changing are the parts of an output that differ from run to run.
var changing = regexp.MustCompile(`…|\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ|\b[0-9a-f]{12}\b|\b[0-9a-f]{40}\b|\b\d{17,20}\b|\b\d+(\.\d+)? s\b`)

func pattern(line string) *regexp.Regexp {
	line = squeezed(line)
	var out strings.Builder
	at := 0
	for _, found := range changing.FindAllStringIndex(line, -1) {
		out.WriteString(regexp.QuoteMeta(line[at:found[0]]))
		switch part := line[found[0]:found[1]]; {
		case part == "…":
			out.WriteString(`.*`)
		case strings.HasSuffix(part, " s"):
			out.WriteString(`\d+(\.\d+)? s`)
		case strings.HasSuffix(part, "Z"):
			out.WriteString(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ`)
		default:
			out.WriteString(`[0-9a-f]+`)
		}
		at = found[1]
	}
	out.WriteString(regexp.QuoteMeta(line[at:]))
	return regexp.MustCompile("^" + out.String() + "$")
}

// squeezed is a line with one space between its words.
func squeezed(line string) string { return strings.Join(strings.Fields(line), " ") }
