// Package leak searches texts and the files below folders for planted secrets, in plain text, base64 and hexadecimal.
package leak

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Secret is a planted text.
type Secret struct {
	Name string // where the test planted it
	Text string // at least 12 characters that appear nowhere else
}

// Finder collects leaks. Its methods may be called from any goroutine.
type Finder struct {
	needles []encodedSecret

	mu    sync.Mutex
	found []string
	bytes int64
}

// encodedSecret is one encoding of a secret.
type encodedSecret struct {
	secret Secret
	form   string
	text   []byte
}

// NewFinder searches for secrets as plain text, in base64 at any offset, and in hex.
func NewFinder(secrets ...Secret) *Finder {
	f := &Finder{}
	for _, s := range secrets {
		f.needles = append(f.needles, encodedSecret{s, "as it is", []byte(s.Text)}, encodedSecret{s, "in hex", []byte(hex.EncodeToString([]byte(s.Text)))})
		for shift := range 3 {
			f.needles = append(f.needles, encodedSecret{s, "in base64", encoded(s.Text, shift)})
		}
	}
	return f
}

// encoded returns the part of the base64 form of a text, after the given number of other bytes, that
// does not depend on the text around it.
func encoded(text string, shift int) []byte {
	whole := append(make([]byte, shift), text...)
	whole = whole[:len(whole)/3*3]
	out := []byte(base64.StdEncoding.EncodeToString(whole))
	if shift > 0 {
		out = out[4:]
	}
	return out
}

// Look searches a text from a place, except for the secrets allowed there.
func (f *Finder) Look(place string, text []byte, allowed ...Secret) {
	var found []string
	for _, n := range f.needles {
		if at := bytes.Index(text, n.text); at >= 0 && !contains(allowed, n.secret) {
			found = append(found, fmt.Sprintf("%s: %s, %s: …%s…", place, n.secret.Name, n.form, around(text, at, len(n.text))))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found = append(f.found, found...)
	f.bytes += int64(len(text))
}

// LookIn searches all files below a folder.
func (f *Finder) LookIn(folder string, allowed ...Secret) (files int, err error) {
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		f.Look(path, text, allowed...)
		return nil
	})
	return files, err
}

// Found lists the leaks, and the number of searched bytes.
func (f *Finder) Found() (leaks []string, searched int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.found, f.bytes
}

func contains(list []Secret, s Secret) bool {
	for _, other := range list {
		if other == s {
			return true
		}
	}
	return false
}

func around(text []byte, at, length int) []byte {
	return bytes.ToValidUTF8(text[max(0, at-60):min(len(text), at+length+20)], []byte("?"))
}
