package tarball

import (
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Profile is the content of manifest.yaml in an app profile's archive.
type Profile struct {
	Values string // file merged over the chart's values; empty for none
	Copies []Copy // files put into the chart before rendering
}

// Copy is a file of a profile that is copied into the chart; it may replace a file there.
type Copy struct {
	From string // path in the profile's archive
	To   string // path in the chart's archive, which begins with the chart's directory
}

// profileManifest is the file at the root of a profile that describes it.
const profileManifest = "manifest.yaml"

// CheckProfile reports why an app profile's archive cannot be used.
func CheckProfile(files Tree) error {
	_, err := ReadProfile(files)
	return err
}

// ReadProfile reads a profile's manifest and checks that all named files exist and stay
// within the archive or the chart. Errors are Invalid.
func ReadProfile(files Tree) (Profile, error) {
	text, ok := files[profileManifest]
	if !ok {
		return Profile{}, invalid("profile: %s is missing at the top of the archive", profileManifest)
	}
	if len(text) > maxManifest {
		return Profile{}, invalid("profile: %s has %d bytes, more than %d", profileManifest, len(text), maxManifest)
	}
	var m struct {
		Version string `yaml:"version"`
		Type    struct {
			Values  string `yaml:"values"`
			Configs []struct {
				File  string `yaml:"filepath"`
				Chart string `yaml:"chartpath"`
			} `yaml:"configresource"`
		} `yaml:"type"`
	}
	if err := decode(text, &m); err != nil {
		return Profile{}, invalid("profile: %s is no valid YAML: %s", profileManifest, reason(err))
	}
	if m.Version != "" && m.Version != "v1" {
		return Profile{}, invalid("profile: %s: version is %q; only v1 is known", profileManifest, m.Version)
	}
	p := Profile{}
	if m.Type.Values != "" {
		name, err := inside(files, "type.values", m.Type.Values)
		if err != nil {
			return Profile{}, err
		}
		p.Values = name
		if err := checkValues(name, files[name]); err != nil {
			return Profile{}, err
		}
	}
	for i, c := range m.Type.Configs {
		from, err := inside(files, fmt.Sprintf("type.configresource[%d].filepath", i), c.File)
		if err != nil {
			return Profile{}, err
		}
		to, err := chartPath(i, c.Chart)
		if err != nil {
			return Profile{}, err
		}
		p.Copies = append(p.Copies, Copy{From: from, To: to})
	}
	return p, nil
}

// inside checks that a member of the manifest names a file of the archive.
func inside(files Tree, member, name string) (string, error) {
	name = strings.TrimPrefix(name, "./")
	if err := local(name); err != nil {
		return "", invalid("profile: %s: %s %q %w", profileManifest, member, clip(name), err)
	}
	if _, ok := files[name]; !ok {
		return "", invalid("profile: %s: %s names %q, which is not in the archive", profileManifest, member, clip(name))
	}
	return name, nil
}

// chartPath checks the target path of the i-th copy.
func chartPath(i int, name string) (string, error) {
	name = strings.TrimPrefix(name, "./")
	if err := local(name); err != nil {
		return "", invalid("profile: %s: type.configresource[%d].chartpath %q %w", profileManifest, i, clip(name), err)
	}
	if path.Dir(name) == "." {
		return "", invalid("profile: %s: type.configresource[%d].chartpath %q must begin with the chart's directory", profileManifest, i, clip(name))
	}
	return name, nil
}

// maxManifest and maxValues bound the YAML files of a package, in bytes: reading YAML needs
// many times its size.
const (
	maxManifest = 1 << 20
	maxValues   = 5 << 20
)

// checkValues checks that a values file holds a mapping or nothing. Errors contain no
// values, which may be passwords.
func checkValues(name string, text []byte) error {
	if len(text) > maxValues {
		return invalid("profile: %s has %d bytes, more than %d", name, len(text), maxValues)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return invalid("profile: %s is no valid YAML: %s", name, reason(err))
	}
	if len(root.Content) > 0 && root.Content[0].Kind != yaml.MappingNode && root.Content[0].ShortTag() != "!!null" {
		return invalid("profile: %s must be a mapping", name)
	}
	return nil
}

// maxKeys bounds the keys of one mapping in a manifest: the YAML library compares each key with all
// others.
const maxKeys = 1000

// decode decodes a manifest. Its time grows with the size of the text, and not faster.
func decode(text []byte, out any) error {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil || root.IsZero() {
		return err
	}
	if err := checkKeys(&root); err != nil {
		return err
	}
	return root.Decode(out)
}

func checkKeys(n *yaml.Node) error {
	if n.Kind == yaml.MappingNode && len(n.Content) > 2*maxKeys {
		return fmt.Errorf("line %d: a mapping has %d keys, more than %d", n.Line, len(n.Content)/2, maxKeys)
	}
	for _, child := range n.Content {
		if err := checkKeys(child); err != nil {
			return err
		}
	}
	return nil
}
