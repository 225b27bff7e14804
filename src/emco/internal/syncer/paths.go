package syncer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Lengths of path elements, in bytes. File systems allow 255.
const (
	maxElement = 255
	maxFile    = 200 // longer file names are cut and get a hash
	hashLen    = 12  // hexadecimal digits of such a hash
	fanDigits  = 2   // of the hash, for a cluster that fans out
)

// Check refuses a target whose names would lead out of its directory.
func (t Target) Check() error {
	if _, err := v2.ParseClusterKey(t.Cluster.String()); err != nil {
		return errs.E(errs.Invalid, "plan", "for a cluster", err)
	}
	if err := element(string(t.Deployment)); err != nil {
		return errs.E(errs.Invalid, "plan", fmt.Sprintf("deployment %q", t.Deployment), err)
	}
	return nil
}

// Root returns the cluster's directory. Reconcilers are bootstrapped on it. Clusters that
// fan out are spread over 256 directories, by the hash of their keys.
func (t Target) Root() string {
	key := t.Cluster.String()
	if t.FanOut {
		return path.Join("clusters", hashed(key)[:fanDigits], key)
	}
	return path.Join("clusters", key)
}

// Dir returns the directory that holds exactly the deployment's files on the cluster.
func (t Target) Dir() string { return path.Join(t.Root(), "context", string(t.Deployment)) }

// Pointer returns the path of a pointer file of the deployment, next to the directory
// "context": "<prefix><deployment>.yaml".
func (t Target) Pointer(prefix string) string {
	return path.Join(t.Root(), prefix+string(t.Deployment)+".yaml")
}

// PointerIn returns the path of a pointer file in a directory of the cluster for such files
// alone. A reconciler that reads directories recursively can be bootstrapped on it.
func (t Target) PointerIn(dir, prefix string) string {
	return path.Join(t.Root(), dir, prefix+string(t.Deployment)+".yaml")
}

// AppDir returns the directory of an app; Invalid if the app's name is not a path element.
func (t Target) AppDir(app string) (string, error) {
	if err := t.Check(); err != nil {
		return "", err
	}
	if err := checkApp(app); err != nil {
		return "", err
	}
	return path.Join(t.Dir(), "app", app), nil
}

// checkApp refuses an app whose name is not a path element.
func checkApp(name string) error {
	if err := element(name); err != nil {
		return errs.E(errs.Invalid, "plan", fmt.Sprintf("app %q", name), err)
	}
	return nil
}

// File is the file of one object.
type File struct {
	Name   string // within the app's directory
	Object manifest.Object
	CRD    bool
}

// Files returns the files of the app's directory with their objects, sorted by name. It
// alone names files. The name is upstream's, "<name>+<Kind>.yaml". Objects whose names would be
// equal, in any letter case, all get "<name>+<Kind>+<namespace>+<group>.yaml". A duplicate
// object, and a name that is not a path element, are Invalid.
func (a App) Files() ([]File, error) {
	out := make([]File, 0, len(a.Objects)+len(a.CRDs))
	for i, o := range slices.Concat(a.Objects, a.CRDs) {
		out = append(out, File{Object: o, CRD: i >= len(a.Objects)})
	}
	if err := a.distinct(out); err != nil {
		return nil, err
	}
	name(out)
	for _, f := range out {
		if err := element(f.Name); err != nil {
			return nil, a.invalid(f.Object, err)
		}
	}
	slices.SortFunc(out, func(x, y File) int { return strings.Compare(x.Name, y.Name) })
	return out, nil
}

// distinct refuses duplicate objects, also in different versions of their API.
func (a App) distinct(files []File) error {
	seen := map[manifest.ID]bool{}
	for _, f := range files {
		id := f.Object.ID
		if id.Name == "" || id.Kind == "" {
			return a.invalid(f.Object, errors.New("has no name or no kind"))
		}
		id.Version = ""
		if seen[id] {
			return a.invalid(f.Object, errors.New("is given twice"))
		}
		seen[id] = true
	}
	return nil
}

// name names files. All files that share a name get the next longer form, so that the order
// does not matter, until no two are equal.
func name(files []File) {
	form := make([]int, len(files))
	for range len(forms) + 1 { // the last round sets the names that the one before chose
		sharing := map[string][]int{}
		for i := range files {
			files[i].Name = forms[form[i]](files[i].Object.ID)
			key := folded(files[i].Name)
			sharing[key] = append(sharing[key], i)
		}
		for _, same := range sharing {
			for _, i := range same {
				if len(same) > 1 && form[i] < len(forms)-1 {
					form[i]++
				}
			}
		}
	}
}

// forms are the file names of an object, from short to unique.
var forms = [...]func(manifest.ID) string{
	func(id manifest.ID) string { return fileName(id.Name + "+" + id.Kind) },
	func(id manifest.ID) string { return fileName(full(id)) },
	func(id manifest.ID) string { return fileName(full(id) + "+" + hashed(full(id))) },
}

// full returns everything that identifies an object within a cluster.
func full(id manifest.ID) string {
	return strings.Join([]string{id.Name, id.Kind, id.Namespace, id.Group}, "+")
}

// invalid returns an Invalid error about one of the app's objects.
func (a App) invalid(o manifest.Object, err error) error {
	subject := fmt.Sprintf("app %s: %s", a.Name, o.ID)
	if o.Source != "" {
		subject += " (" + o.Source + ")"
	}
	return errs.E(errs.Invalid, "plan", subject, err)
}

// fileName adds the suffix, and cuts names that are too long for file systems.
func fileName(stem string) string {
	if len(stem) <= maxFile {
		return stem + ".yaml"
	}
	return stem[:cut(stem, maxFile-hashLen-1)] + "+" + hashed(stem) + ".yaml"
}

// cut returns the largest n up to limit at which s may be cut between runes.
func cut(s string, limit int) int {
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return limit
}

// hashed returns a short name for s that no other string shares.
func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:hashLen]
}

// folded returns s as file systems without letter case see it.
func folded(s string) string { return strings.ToLower(s) }

// element refuses names that are not one path element on every system.
func element(s string) error {
	switch {
	case s == "":
		return errors.New("has no name")
	case s == "." || s == "..", strings.ContainsAny(s, `/\`), strings.EqualFold(s, ".git"):
		return errors.New("is not usable as a file name")
	case !utf8.ValidString(s), strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return errors.New("holds bytes that are not usable in a file name")
	case len(s) > maxElement:
		return fmt.Errorf("is longer than %d bytes", maxElement)
	}
	return nil
}
