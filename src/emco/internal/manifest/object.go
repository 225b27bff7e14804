package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// newObject checks an object's shape and returns its canonical form.
func newObject(t objectTree) (Object, error) {
	prune(t)
	id, err := identify(t)
	if err != nil {
		return Object{}, err
	}
	if err := checkSecret(id, t); err != nil {
		return Object{}, err
	}
	content, err := encode(t)
	if err != nil {
		return Object{}, fmt.Errorf("%s: %w", id, err)
	}
	if len(content) > MaxObject {
		return Object{}, fmt.Errorf("%s has %d bytes, above the limit of %d; split it", id, len(content), MaxObject)
	}
	return Object{ID: id, Digest: DigestOf(content), Content: content}, nil
}

// encode writes a tree as canonical JSON: keys sorted, nothing escaped for HTML, one
// newline at the end. Numbers keep their text.
func encode(t objectTree) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(t); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// decode reads canonical content. It cannot fail on what newObject wrote.
func decode(o Object) (objectTree, error) {
	dec := json.NewDecoder(bytes.NewReader(o.Content))
	dec.UseNumber()
	var t objectTree
	if err := dec.Decode(&t); err != nil {
		return nil, fmt.Errorf("%s: content is no JSON object: %w", o.ID, err)
	}
	return t, nil
}

// prune removes what tools write without meaning: a null creation timestamp and an empty
// status. So equal objects get equal bytes.
func prune(t objectTree) {
	for _, meta := range append(templateMetas(t, false), metadata(t)) {
		if v, ok := meta["creationTimestamp"]; ok && v == nil {
			delete(meta, "creationTimestamp")
		}
	}
	if status, ok := t["status"]; ok && empty(status) {
		delete(t, "status")
	}
}

// empty reports whether a status has no content: {}, null, or only empty members.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case objectTree:
		return !slices.ContainsFunc(slices.Collect(maps.Values(v)), func(v any) bool { return !empty(v) })
	}
	return false
}

// metadata returns an object's metadata, nil if it has none.
func metadata(t objectTree) objectTree {
	meta, _ := t["metadata"].(objectTree)
	return meta
}

// identify reads an object's id and checks that an API server could accept it.
func identify(t objectTree) (ID, error) {
	apiVersion, err := text(t, "apiVersion")
	if err != nil {
		return ID{}, err
	}
	kind, err := text(t, "kind")
	if err != nil {
		return ID{}, err
	}
	meta, ok := t["metadata"].(objectTree)
	if !ok {
		return ID{}, fmt.Errorf("%s without metadata.name", kind)
	}
	name, err := text(meta, "name")
	if err != nil {
		return ID{}, fmt.Errorf("%s: metadata.%w", kind, err)
	}
	id := ID{Version: apiVersion, Kind: kind, Name: name}
	if group, version, ok := strings.Cut(apiVersion, "/"); ok {
		id.Group, id.Version = group, version
	}
	if ns, ok := meta["namespace"]; ok && ns != nil {
		if id.Namespace, ok = ns.(string); !ok {
			return ID{}, fmt.Errorf("%s %s: metadata.namespace must be a string", kind, name)
		}
	}
	if err := checkID(id); err != nil {
		return ID{}, err
	}
	return id, checkMaps(id, meta)
}

// text returns a member that must be a string and not empty.
func text(t objectTree, member string) (string, error) {
	v, ok := t[member]
	if !ok || v == nil || v == "" {
		return "", fmt.Errorf("%s is missing", member)
	}
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%s must be a string; quote it", member)
	}
	return s, nil
}

var (
	dnsLabel  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	kindName  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)
)

// maxLabel is the longest DNS label, and the longest kind.
const maxLabel = 63

// checkID applies Kubernetes' rules on names. A name is checked as a path segment
// only: several kinds, such as ClusterRole, allow more than a DNS name.
func checkID(id ID) error {
	switch {
	case id.Group != "" && (len(id.Group) > 253 || !subdomain.MatchString(id.Group)), !isLabel(id.Version):
		return fmt.Errorf("%s: apiVersion %q must be <group>/<version> or <version>", id.Kind, id.APIVersion())
	case len(id.Kind) > maxLabel || !kindName.MatchString(id.Kind):
		return fmt.Errorf("kind %q must be letters and digits", id.Kind)
	case id.Namespace != "" && !isLabel(id.Namespace):
		return fmt.Errorf("%s %q: namespace %q must be a DNS label", id.Kind, id.Name, id.Namespace)
	case !pathSegment(id.Name):
		return fmt.Errorf("%s: name %q must be at most 253 characters without slash, percent sign or white space", id.Kind, id.Name)
	}
	return nil
}

// isLabel reports whether a text is a DNS label.
func isLabel(text string) bool { return len(text) <= maxLabel && dnsLabel.MatchString(text) }

func pathSegment(name string) bool {
	if name == "." || name == ".." || len(name) > 253 || strings.ContainsAny(name, "/\\%") {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	})
}

// checkMaps checks that labels and annotations map strings to strings. An unquoted
// number or yes is the usual mistake; an API server refuses the object for it.
func checkMaps(id ID, meta objectTree) error {
	for _, member := range []string{"annotations", "labels"} {
		v, ok := meta[member]
		if !ok || v == nil {
			continue
		}
		m, ok := v.(objectTree)
		if !ok {
			return fmt.Errorf("%s %s: metadata.%s must be a mapping", id.Kind, id.Name, member)
		}
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if _, ok := m[key].(string); !ok && m[key] != nil {
				return fmt.Errorf("%s %s: metadata.%s[%q] must be a string; quote it", id.Kind, id.Name, member, key)
			}
		}
	}
	return nil
}

// Annotations returns an object's annotations; the map is the caller's, never nil.
func (o Object) Annotations() map[string]string {
	var head struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(o.Content, &head); err != nil || head.Metadata.Annotations == nil {
		return map[string]string{}
	}
	return head.Metadata.Annotations
}
