// Package changelog joins the fragments of docs/changelog into one page. A fragment holds entries
// that begin with a word such as "New:"; a folder holds the fragments of one version.
package changelog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// unreleased is the folder of what comes with the next version.
const unreleased = "unreleased"

// sections are the headings, in order, with the words that lead to them.
var sections = []struct {
	heading string
	words   []string
}{
	{"Security", []string{"Security"}},
	{"New", []string{"New", "Added"}},
	{"Changed", []string{"Changed", "Better"}},
	{"Removed", []string{"Removed"}},
	{"Fixed", []string{"Fixed"}},
}

var entryStart = regexp.MustCompile(`(?m)^([A-Z][a-z]+): `)

// Page returns the page of all versions below dir, the newest first.
func Page(dir string) (string, error) {
	folders, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var versions []string
	for _, f := range folders {
		if f.Name() != unreleased && !semver.IsValid(f.Name()) {
			return "", fmt.Errorf("%s: %s is neither %s nor a version such as v1.2.3", dir, f.Name(), unreleased)
		}
		versions = append(versions, f.Name())
	}
	slices.SortFunc(versions, func(a, b string) int { // what is no version yet is the newest
		switch {
		case a == b:
			return 0
		case a == unreleased:
			return -1
		case b == unreleased:
			return 1
		}
		return semver.Compare(b, a)
	})
	var b strings.Builder
	b.WriteString("# Changes\n\n<!-- Generated from docs/changelog; make gen rewrites it. -->\n")
	for _, v := range versions {
		if err := version(&b, dir, v); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

func version(b *strings.Builder, dir, name string) error {
	files, err := filepath.Glob(filepath.Join(dir, name, "*.md"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	entries := map[string][]string{}
	var errs []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			err = collect(string(text), entries)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		}
	}
	title := name
	if name == unreleased {
		title = "Unreleased"
	}
	fmt.Fprintf(b, "\n## %s\n", title)
	for _, s := range sections {
		if len(entries[s.heading]) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n### %s\n\n", s.heading)
		for _, e := range entries[s.heading] {
			b.WriteString(e)
		}
	}
	return errors.Join(errs...)
}

// collect adds the entries of a fragment, as items of a list.
func collect(text string, to map[string][]string) error {
	starts := entryStart.FindAllStringSubmatchIndex(text, -1)
	if len(starts) == 0 || strings.TrimSpace(text[:starts[0][0]]) != "" {
		return errors.New(`begin each entry with "New: ", "Changed: ", "Removed: ", "Fixed: " or "Security: "`)
	}
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		heading := headingOf(text[at[2]:at[3]])
		if heading == "" {
			return fmt.Errorf("%q is not the word of a section", text[at[2]:at[3]])
		}
		to[heading] = append(to[heading], item(text[at[1]:end]))
	}
	return nil
}

func headingOf(word string) string {
	for _, s := range sections {
		if slices.Contains(s.words, word) {
			return s.heading
		}
	}
	return ""
}

// item indents an entry below a dash, and begins it with a capital. Its links start from the
// fragment's folder, and those of the joined file from the root of the repository.
func item(text string) string {
	text = strings.ReplaceAll(text, "](../../", "](docs/")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	lines[0] = strings.ToUpper(lines[0][:1]) + lines[0][1:]
	for i := range lines {
		if i > 0 && lines[i] != "" {
			lines[i] = "  " + lines[i]
		}
	}
	return "- " + strings.Join(lines, "\n") + "\n"
}
