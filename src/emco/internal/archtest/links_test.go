package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	unlinked = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestF32LinksLead checks that each link of a page leads to a file, and to a heading of it.
func TestF32LinksLead(t *testing.T) {
	t.Parallel()
	links := 0
	pages := []string{filepath.Join(repository, "README.md")}
	for _, folder := range []string{"docs", "examples", "scripts", "deployments"} {
		err := filepath.WalkDir(filepath.Join(repository, folder), func(path string, d os.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".md") && !strings.Contains(path, "changelog") {
				pages = append(pages, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			file, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], ":") {
				continue // elsewhere
			}
			links++
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			there, err := os.ReadFile(target)
			if _, missing := os.Stat(target); missing != nil || fragment != "" && (err != nil || !slices.Contains(fragments(string(there)), fragment)) {
				t.Errorf("%s: the link %s leads nowhere", strings.TrimPrefix(page, repository+"/"), m[1])
			}
		}
	}
	if links < 200 {
		t.Errorf("%d links were checked", links)
	}
}

// fragments are the names of a page's headings in links.
func fragments(text string) (out []string) {
	fenced := false
	for line := range strings.Lines(text) {
		if fenced = fenced != strings.HasPrefix(line, "```"); fenced || !strings.HasPrefix(line, "#") {
			continue
		}
		title := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
		out = append(out, strings.ReplaceAll(unlinked.ReplaceAllString(title, ""), " ", "-"))
	}
	return out
}
