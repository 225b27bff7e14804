// Package sops creates age keys, and encrypts and decrypts manifests with them through the program
// sops, as the owners of charts do.
package sops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/emco-orchestrator/emco/scripts/testbed/build"
)

// Tool is the built programs.
type Tool struct{ part string }

// Key is an age key: File, the content of a key file, decrypts text that was encrypted for Public.
type Key struct{ Public, File string }

// Open builds the programs if the cache lacks them. Progress receives one line per step; nil drops
// them.
func Open(ctx context.Context, progress io.Writer) (Tool, error) {
	if progress == nil {
		progress = io.Discard
	}
	builder, err := build.New(progress)
	if err != nil {
		return Tool{}, err
	}
	part, err := builder.Build(ctx, "sops")
	return Tool{part}, err
}

// NewKey creates a key.
func (t Tool) NewKey(ctx context.Context) (Key, error) {
	file, err := t.run(ctx, "age-keygen", "", nil)
	if err != nil {
		return Key{}, err
	}
	for line := range strings.Lines(file) {
		if public, ok := strings.CutPrefix(line, "# public key: "); ok {
			return Key{Public: strings.TrimSpace(public), File: file}, nil
		}
	}
	return Key{}, errors.New("age-keygen prints no public key")
}

// Encrypt returns a manifest with the values below data and stringData encrypted. The rest may change
// afterwards: the authentication code does not cover it.
func (t Tool) Encrypt(ctx context.Context, k Key, manifest string) (string, error) {
	return t.run(ctx, "sops", manifest, []string{"SOPS_AGE_RECIPIENTS=" + k.Public},
		"--encrypt", "--encrypted-regex", "^(data|stringData)$", "--mac-only-encrypted", "--input-type", "yaml", "--output-type", "yaml", "/dev/stdin")
}

// Decrypt returns the original manifest. It is an error if encrypted values have changed.
func (t Tool) Decrypt(ctx context.Context, k Key, manifest string) (string, error) {
	return t.run(ctx, "sops", manifest, []string{"SOPS_AGE_KEY=" + k.File}, "decrypt", "--filename-override", "secret.yaml")
}

// run passes text to a program, if there is any, and returns its output.
func (t Tool) run(ctx context.Context, program, text string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(t.part, program), args...)
	cmd.Env = append(os.Environ(), env...)
	var failure bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(text), &failure
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, failure.Bytes())
	}
	return string(out), nil
}
