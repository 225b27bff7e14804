package preview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
)

// Diff prints a unified diff of YAML for each object that changes, once for all clusters
// of a class. The error is that of content that is not JSON.
func Diff(w io.Writer, p v2.Plan, o Options) error {
	pr := planPrinter{w: w, o: o}
	for _, a := range p.Apps {
		if a.Failure != nil {
			pr.line("# %s", printable.Line(fmt.Sprintf("app %s fails: %s%s", a.Name, strings.TrimPrefix(a.Failure.File+": ", ": "), a.Failure.Reason)))
		}
		for _, c := range a.Classes {
			if c.Change == v2.ChangeKeep {
				continue
			}
			pr.line("# %s: %s on %s", a.Name, c.Change, pr.where(clustersOf(c)))
			for _, change := range c.Objects {
				if err := pr.object(p, a.Name, change); err != nil {
					return err
				}
			}
		}
	}
	if p.Confirm != "" {
		pr.line("# needs --force: %s", p.Confirm)
	}
	return nil
}

// object prints the diff of one object.
func (p planPrinter) object(plan v2.Plan, app string, o v2.ObjectChange) error {
	if o.Change == v2.ChangeKeep {
		return nil
	}
	before, err := yamlOf(o.Before)
	if err != nil {
		return err
	}
	after, err := yamlOf(o.After)
	if err != nil {
		return err
	}
	name := fileName(app, o)
	was, is := diffSide{absent, before}, diffSide{absent, after}
	if o.Before != nil {
		was.name = fmt.Sprintf("%s (revision %d)", name, plan.From)
	}
	if o.After != nil {
		is.name = fmt.Sprintf("%s (revision %d)", name, plan.Revision)
	}
	p.diff(was, is)
	return nil
}

// absent is the name of the side without an object.
const absent = "/dev/null"

// Document prints the diff of the server's document and that of a file. A nil text stands
// for a missing document.
func Document(w io.Writer, path, file string, server, local json.RawMessage, o Options) error {
	before, err := yamlOf(server)
	if err != nil {
		return err
	}
	after, err := yamlOf(local)
	if err != nil {
		return err
	}
	was := diffSide{path + " (server)", before}
	if server == nil {
		was.name = absent
	}
	planPrinter{w, o}.diff(was, diffSide{path + " (" + file + ")", after})
	return nil
}

func yamlOf(text json.RawMessage) (string, error) {
	if text == nil {
		return "", nil
	}
	var out bytes.Buffer
	err := output.Encode(&out, output.YAML, text)
	return out.String(), err
}

// fileName returns "app/apiVersion/Kind/namespace/name".
func fileName(app string, o v2.ObjectChange) string {
	parts := []string{app}
	for _, part := range []string{o.GVK.Group, o.GVK.Version, o.GVK.Kind, o.Namespace, o.Name} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
}

// colours of the lines of a diff, by their first character.
var colours = map[byte]string{'@': "36", '-': "31", '+': "32"}

// diffSide is one of the two texts of a diff.
type diffSide struct{ name, text string }

// diff prints the unified diff of two texts, in colours if the user wants them; nothing if
// they are equal. Its first two lines are its head.
func (p planPrinter) diff(before, after diffSide) {
	text := diff.Diff(before.name, []byte(before.text), after.name, []byte(after.text))
	_, text, _ = bytes.Cut(text, []byte("\n")) // the line "diff BEFORE AFTER"
	n := 0
	for line := range strings.Lines(string(text)) {
		line = printable.Text(strings.TrimSuffix(line, "\n"))
		code := colours[line[0]]
		if n++; n <= 2 {
			code = "1"
		}
		if p.o.Colour && code != "" {
			line = "\x1b[" + code + "m" + line + "\x1b[0m"
		}
		fmt.Fprintln(p.w, line)
	}
}
