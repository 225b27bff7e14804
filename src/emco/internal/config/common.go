package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// longestCommon is the length above which Common has a digest of a value, in bytes.
const longestCommon = 200

// Common returns the settings that all processes of an installation need alike, by name, as they are in force: with another value a process
// lets through what the others refuse, records less, or makes other content of the same documents. Long values are digests. The error is one of a file that a setting names.
func (c Config) Common() (map[string]string, error) {
	schemas, err := digestOf(c.Controllers.Schemas)
	if err != nil {
		return nil, err
	}
	projects := slices.Sorted(slices.Values(c.Auth.FourEyes))
	return map[string]string{
		"audit.mode":          c.AuditMode(),
		"auth.fourEyes":       short(strings.Join(slices.Compact(projects), ",")),
		"auth.mode":           c.authMode(),
		"controllers.schemas": schemas,
		"level.auto":          strconv.FormatBool(c.Level.Auto),
		"render.kubeVersion":  short(c.Render.KubeVersion),
	}, nil
}

// short returns a value, or its digest if it is long.
func short(value string) string {
	if len(value) <= longestCommon {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// digestOf returns a digest of the content of files, in any order; empty without files.
func digestOf(files []string) (string, error) {
	var all []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("controllers.schemas: %w", err)
		}
		sum := sha256.Sum256(text)
		all = append(all, hex.EncodeToString(sum[:]))
	}
	if len(all) == 0 {
		return "", nil
	}
	slices.Sort(all)
	sum := sha256.Sum256([]byte(strings.Join(all, "\n")))
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
