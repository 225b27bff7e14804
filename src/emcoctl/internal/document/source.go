package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Stdin is the name that means the standard input.
const Stdin = "-"

// maxInput bounds one file of documents, in bytes.
const maxInput = 32 << 20

// Sources are the files to read.
type Sources struct {
	Names     []string // files, directories, or Stdin
	Recursive bool     // look into directories below a named one
	Values    []string // values files for templates; none: files are not expanded
	Strict    bool     // a missing template key is an error
	Known     bool     // a key that the document's kind does not have is an error
	Stdin     io.Reader
}

// Load reads all documents of all sources in order. It parses all of them first, so that a
// typing error in the last file stops a run before it starts. Errors are Invalid for
// unreadable files and Malformed for those that cannot be parsed; they name the file.
func Load(s Sources) (ParseResult, error) {
	values, err := s.values()
	if err != nil {
		return ParseResult{}, err
	}
	files, err := s.files()
	if err != nil {
		return ParseResult{}, err
	}
	var all ParseResult
	for _, file := range files {
		one, err := s.load(file.name, values)
		if err != nil {
			return ParseResult{}, err
		}
		if file.found {
			one = one.only()
		}
		all.Documents = append(all.Documents, one.Documents...)
		all.Warnings = append(all.Warnings, one.Warnings...)
		all.Unknown = append(all.Unknown, one.Unknown...)
	}
	if s.Known && len(all.Unknown) > 0 {
		return ParseResult{}, errs.New(errs.Malformed, "--strict refuses keys that would be ignored:\n  "+strings.Join(all.Unknown, "\n  "))
	}
	all.Warnings = append(all.Warnings, all.Unknown...)
	return all, nil
}

// load reads one file and expands it if there are values. Errors list missing values, which
// may be their cause.
func (s Sources) load(file string, values Values) (ParseResult, error) {
	text, err := s.read(file)
	if err != nil {
		return ParseResult{}, err
	}
	expanded := Expanded{Text: text}
	if len(s.Values) > 0 {
		if expanded, err = Expand(file, text, values); err != nil {
			return ParseResult{}, err
		}
	}
	missing := expanded.Missing
	if len(missing) > 0 && s.Strict {
		return ParseResult{}, errs.New(errs.Malformed, strings.Join(missing, "\n"))
	}
	parsed, err := expanded.parse(file)
	if err != nil && len(s.Values) == 0 && bytes.Contains(text, []byte("{{")) {
		where, _, _ := strings.Cut(err.Error(), ": ")
		return ParseResult{}, errs.New(errs.Malformed, where+": the file looks like a template; give its values with -v FILE")
	}
	if err != nil && len(missing) > 0 {
		return ParseResult{}, fmt.Errorf("%w\n%s", err, strings.Join(missing, "\n"))
	}
	parsed.Warnings = append(missing, parsed.Warnings...)
	return parsed, err
}

// values merges all values files.
func (s Sources) values() (Values, error) {
	all := Values{}
	for _, file := range s.Values {
		text, err := s.read(file)
		if err != nil {
			return nil, err
		}
		one, err := ParseValues(file, text)
		if err != nil {
			return nil, err
		}
		all = all.Merge(one)
	}
	return all, nil
}

// read returns a whole file, or the standard input.
func (s Sources) read(file string) ([]byte, error) {
	in := s.Stdin
	if file != Stdin {
		f, err := os.Open(file)
		if err != nil {
			return nil, unreadable(file, err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return nil, unreadable(file, err)
	}
	if len(text) > maxInput {
		return nil, errs.E(errs.TooLarge, "read", file, fmt.Errorf("above %d bytes", maxInput))
	}
	return text, nil
}

// unreadable returns an error that names the file once, without the path in err.
func unreadable(file string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return errs.E(errs.Invalid, "read", file, err)
}

// inputFile is a file to read.
type inputFile struct {
	name  string
	found bool // in a directory, not named by the user
}

// only drops documents without an anchor: a directory may also hold values and
// configuration files.
func (p ParseResult) only() ParseResult {
	var out ParseResult
	for _, doc := range p.Documents {
		if doc.Anchor != "" {
			out.Documents = append(out.Documents, doc)
			continue
		}
		out.Warnings = append(out.Warnings, doc.At.String()+": skipped: it has no resourceContext.anchor")
	}
	if len(out.Documents) > 0 {
		out.Warnings = append(out.Warnings, p.Warnings...)
		out.Unknown = p.Unknown
	}
	return out
}

// files lists the files to read, in the order of Names; directories are replaced with their
// documents, sorted.
func (s Sources) files() ([]inputFile, error) {
	var out []inputFile
	for _, name := range s.Names {
		if name == Stdin {
			out = append(out, inputFile{name: name})
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return nil, unreadable(name, err)
		}
		if !info.IsDir() {
			out = append(out, inputFile{name: name})
			continue
		}
		found, err := s.directory(name)
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			if !s.isValues(path) {
				out = append(out, inputFile{name: path, found: true})
			}
		}
	}
	return out, nil
}

// isValues reports whether a file is one of the values files, which are often in the
// directory of the documents.
func (s Sources) isValues(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(s.Values, func(file string) bool {
		values, err := os.Stat(file)
		return err == nil && os.SameFile(info, values)
	})
}

// directory lists the documents of a directory, in lexical order of their paths. A
// directory without any is an error: it is probably the wrong one.
func (s Sources) directory(dir string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return unreadable(path, err)
		case d.IsDir() && path != dir && !s.Recursive:
			return fs.SkipDir
		case !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			found = append(found, path)
		}
		return nil
	})
	if err == nil && len(found) == 0 {
		err = errs.E(errs.Invalid, "read", dir, errors.New("it has no *.yaml, *.yml or *.json; -R includes subdirectories"))
	}
	return found, err
}
