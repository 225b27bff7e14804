package childproc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// FindPrograms returns the paths of a configuration's entries "name=/path", by name. A path that is not
// an executable file is an error, so that it is noticed before the program is needed.
func FindPrograms(entries []string) (map[string]string, error) {
	paths := map[string]string{}
	for _, e := range entries {
		name, path, split := strings.Cut(e, "=")
		switch {
		case !split || name == "" || strings.ContainsAny(name, " /\\"):
			return nil, fmt.Errorf("%q is not of the form name=/path", e)
		case !filepath.IsAbs(path):
			return nil, fmt.Errorf("%s: %s is not an absolute path", name, path)
		case paths[name] != "":
			return nil, fmt.Errorf("%s is given twice", name)
		}
		if err := executable(path); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		paths[name] = path
	}
	return paths, nil
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is not an executable file", path)
	}
	return nil
}
