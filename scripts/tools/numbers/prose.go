package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// phrases are word-for-word translations and vague verbs that make readers stop. The list follows
// docs/contributing.md; a match is a place to read, not always a fault.
var phrases = regexp.MustCompile(`(?i)\b(?:` + strings.Join([]string{
	`of which`, `of whom`, `(?:in|to|for|from|by) which`, `(?:is|are|was|were|be) to be`, `what there is`, `there is to`,
	`shall`, `anew`, `by now`, `nobody`, `somebody`, `who is not there`, `whose \w+ that ever`,
	`takes? (?:\w+ )?for`, `taken (?:\w+ )?for`, `sees? to it`, `by itself`, `not \w+ any ?more`, `as long as`, `beside`,
	`mend(?:s|ed)?`, `wish(?:es|ed)?`, `what (?:it|they) (?:has|have|is|was|were)`,
	`says?`, `said`, `tells?`, `told`, `hears?`, `heard`,
}, "|") + `)\b`)

var (
	word = regexp.MustCompile(`[A-Za-z][A-Za-z'-]*`)
	code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`|https?://\\S+")
)

// proseStats counts the words and phrases of one file or of many.
type proseStats struct {
	name           string
	words, phrases int
}

func (p *proseStats) add(text string) {
	text = code.ReplaceAllString(text, " ")
	p.words += len(word.FindAllString(text, -1))
	p.phrases += len(phrases.FindAllString(text, -1))
}

func (p proseStats) perThousand() float64 { return share(p.phrases, p.words) * 10 }

// readProse returns the prose of each file below root: the text of Markdown files, and the
// comments and sentences of Go files.
func readProse(root string) (files []proseStats, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "bench" && filepath.Base(filepath.Dir(path)) == "docs") {
			return fs.SkipDir
		}
		p := proseStats{name: path}
		switch {
		case strings.HasSuffix(path, ".pb.go"):
			return nil
		case filepath.Ext(path) == ".md":
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			p.add(string(text))
		case filepath.Ext(path) == ".go":
			if err := p.addGo(path); err != nil {
				return err
			}
		default:
			return nil
		}
		files = append(files, p)
		return nil
	})
	return files, err
}

// addGo adds the comments of a Go file, and its string literals of four words or more: logs,
// errors and texts of the command line.
func (p *proseStats) addGo(path string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil || ast.IsGenerated(file) {
		return err
	}
	for _, group := range file.Comments {
		p.add(group.Text())
	}
	for n := range ast.Preorder(file) {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			continue
		}
		if text, err := strconv.Unquote(lit.Value); err == nil && len(strings.Fields(text)) >= 4 {
			p.add(text)
		}
	}
	return nil
}

// printProse prints one line for each root, and the files with most phrases.
func printProse(roots []string, worst int) error {
	var all []proseStats
	fmt.Printf("\n%-34s %7s %8s %8s\n", "prose", "words", "phrases", "/1000")
	for _, root := range roots {
		files, err := readProse(root)
		if err != nil {
			return err
		}
		sum := proseStats{name: root}
		for _, f := range files {
			sum.words += f.words
			sum.phrases += f.phrases
		}
		fmt.Printf("%-34s %7d %8d %8.1f\n", sum.name, sum.words, sum.phrases, sum.perThousand())
		all = append(all, files...)
	}
	fmt.Println("well-kept Go projects: under 1 phrase per 1,000 words; read these files first:")
	slices.SortFunc(all, func(a, b proseStats) int { return cmp.Compare(b.phrases, a.phrases) })
	for _, f := range all[:min(worst, len(all))] {
		if f.phrases > 0 {
			fmt.Printf("  %4d phrases, %5.1f per 1,000 words  %s\n", f.phrases, f.perThousand(), f.name)
		}
	}
	return nil
}
