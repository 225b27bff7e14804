package repo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// Unreadable returns the YAML files below a path that do not parse, of all commits of all branches, as
// "path: why".
func Unreadable(ctx context.Context, b gittest.Bare, below string) ([]string, error) {
	changes, err := b.Git(ctx, "", "log", "--all", "--raw", "--no-abbrev", "--no-renames", "--root", "-m", "--full-history", "--format=", "--", below)
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	var ask strings.Builder
	for line := range strings.Lines(changes) { // ":<mode> <mode> <object> <object> <what>\t<path>"
		what, path, _ := strings.Cut(strings.TrimSpace(line), "\t")
		part := strings.Fields(what)
		if len(part) == 5 && part[4] != "D" && strings.HasSuffix(path, ".yaml") && paths[part[3]] == "" {
			paths[part[3]] = path
			ask.WriteString(part[3] + "\n")
		}
	}
	contents, err := b.Git(ctx, ask.String(), "cat-file", "--batch")
	if err != nil {
		return nil, err
	}
	return unreadable(paths, contents)
}

// unreadable reads the output of "git cat-file --batch": for each object a line with its name, type and
// size, its content, and an end of line.
func unreadable(paths map[string]string, contents string) (bad []string, err error) {
	for rest := contents; rest != ""; {
		head, after, _ := strings.Cut(rest, "\n")
		part := strings.Fields(head)
		if len(part) != 3 {
			return nil, fmt.Errorf("git cat-file printed %q", head)
		}
		size, err := strconv.Atoi(part[2])
		if err != nil || size > len(after) {
			return nil, fmt.Errorf("git cat-file printed %q", head)
		}
		if why := parses(after[:size]); part[1] == "blob" && why != nil {
			bad = append(bad, paths[part[0]]+": "+why.Error())
		}
		rest = strings.TrimPrefix(after[size:], "\n")
	}
	return bad, nil
}

// parses reads all documents of a text.
func parses(text string) error {
	d := yaml.NewDecoder(strings.NewReader(text))
	for {
		var document any
		if err := d.Decode(&document); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
