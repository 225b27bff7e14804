package demo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// programs are the programs of EMCO that the demonstration starts, by their paths.
type programs struct{ emco, emcoctl, simfleet string }

// findPrograms finds the programs, and names everything that is missing on the machine.
func findPrograms(o Options) (programs, error) {
	var (
		p      = programs{simfleet: o.Self}
		faults []error
	)
	for name, at := range map[string]*string{"emco": &p.emco, "emcoctl": &p.emcoctl} {
		path, err := find(o, name)
		*at = path
		faults = append(faults, err)
	}
	for _, name := range []string{"git", "sh", "tar"} {
		if _, err := exec.LookPath(name); err != nil {
			faults = append(faults, fmt.Errorf("the program %s is not on the PATH: install it", name))
		}
	}
	return p, errors.Join(faults...)
}

// find returns the path of a program of EMCO: one of -bin, else the one beside simfleet, else the first on the PATH.
func find(o Options, name string) (string, error) {
	beside := o.Bin
	if beside == "" {
		beside = filepath.Dir(o.Self)
	}
	beside, err := filepath.Abs(beside)
	if err != nil {
		return "", err
	}
	path := filepath.Join(beside, name)
	if err = runnable(path); err == nil {
		return path, nil
	}
	if o.Bin != "" {
		return "", fmt.Errorf("-bin: there is no program %s: %w", path, err)
	}
	if path, err = exec.LookPath(name); err != nil {
		return "", fmt.Errorf("the program %s is neither in %s, beside simfleet, nor on the PATH; install it from the same archive, or name its folder by -bin", name, beside)
	}
	return filepath.Abs(path)
}

// environment returns the environment of programs, and more variables. It leaves out what the user has set for programs of
// EMCO and for Git: the demonstration must reach no other server, store or repository.
func environment(more ...string) []string {
	own := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "EMCO_") || strings.HasPrefix(v, "EMCOCTL_") || strings.HasPrefix(v, "GIT_")
	})
	return append(own, more...)
}

func runnable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return errors.New("it is no file that can be executed")
	}
	return nil
}

// path returns the folders of the programs, as an entry of the PATH.
func (p programs) path() string {
	emco, emcoctl := filepath.Dir(p.emco), filepath.Dir(p.emcoctl)
	if emco == emcoctl {
		return emco
	}
	return strings.Join([]string{emcoctl, emco}, string(os.PathListSeparator))
}
