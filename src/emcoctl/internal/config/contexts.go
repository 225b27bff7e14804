package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/nearest"
)

// Context is a server with what a user needs there.
type Context struct {
	Server    string `yaml:"server"`
	CAFile    string `yaml:"caFile,omitempty"`
	CertFile  string `yaml:"certFile,omitempty"`  // client certificate
	KeyFile   string `yaml:"keyFile,omitempty"`   // of CertFile
	TokenFile string `yaml:"tokenFile,omitempty"` // holds the bearer token
	User      string `yaml:"user,omitempty"`      // which sign-in at the server; see emcoctl login
	Project   string `yaml:"project,omitempty"`   // of lists of deployments
}

// Contexts is the file of contexts.
type Contexts struct {
	Current  string             `yaml:"current,omitempty"`
	Contexts map[string]Context `yaml:"contexts,omitempty"`
}

// ReadContexts reads the file; one that does not exist has no contexts. The error is Malformed
// if it cannot be parsed.
func ReadContexts(file string) (Contexts, error) {
	var c Contexts
	if _, err := os.Stat(file); file == "" || errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	text, err := read(file)
	if err != nil {
		return c, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil {
		return Contexts{}, errs.E(errs.Malformed, "read contexts", file, errors.New(strings.TrimPrefix(err.Error(), "yaml: ")))
	}
	return c, nil
}

// Write replaces the file. Only its owner can read it.
func (c Contexts) Write(file string) error {
	text, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	if err := WritePrivate(file, text); err != nil {
		return errs.E(errs.Invalid, "write contexts", file, err)
	}
	return nil
}

// WritePrivate replaces a file at once, and makes its folder if it is missing. Only the owner can read them.
func WritePrivate(file string, text []byte) error {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	next, err := os.CreateTemp(dir, "."+filepath.Base(file)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(next.Name()) // nothing to remove after the rename
	_, err = next.Write(text)
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), file)
	}
	return err
}

// Names lists the contexts.
func (c Contexts) Names() []string { return slices.Sorted(maps.Keys(c.Contexts)) }

// Get returns a context; NotFound, with the name that it resembles, if it does not exist.
func (c Contexts) Get(name string) (Context, error) {
	found, ok := c.Contexts[name]
	if ok {
		return found, nil
	}
	text := "emcoctl config get-contexts lists the existing ones"
	if similar, ok := nearest.To(name, c.Names()); ok {
		text = fmt.Sprintf("did you mean %q?", similar)
	}
	return Context{}, errs.E(errs.NotFound, "context", name, errors.New("does not exist; "+text))
}

// Check reports a server address that cannot be used.
func (c Context) Check() error {
	_, err := client.ParseBase(c.Server)
	return err
}

// maxToken bounds a file with a token, in bytes.
const maxToken = 64 << 10

// Token reads the context's token; empty for none.
func (c Context) Token() (client.Token, error) {
	if c.TokenFile == "" {
		return "", nil
	}
	info, err := os.Stat(c.TokenFile)
	if err == nil && info.Size() > maxToken {
		return "", errs.E(errs.TooLarge, "read token", c.TokenFile, fmt.Errorf("above %d bytes", maxToken))
	}
	text, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return "", errs.E(errs.Invalid, "read token", "", err)
	}
	return client.Token(strings.TrimSpace(string(text))), nil
}
