// Package manifest turns text into Kubernetes objects: parsed, identified, checked
// for shape, written canonically and sorted in apply order. It also sets their labels, stamps and default namespace, and
// hides the values of Secrets in texts that people read.
package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
)

// Digest is the SHA-256 of content, in hexadecimal.
type Digest string

// DigestOf returns the digest of content.
func DigestOf(content []byte) Digest {
	sum := sha256.Sum256(content)
	return Digest(hex.EncodeToString(sum[:]))
}

// ID identifies an object within a cluster.
type ID struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// APIVersion returns "<group>/<version>", or just the version of the core group.
func (id ID) APIVersion() string {
	if id.Group == "" {
		return id.Version
	}
	return id.Group + "/" + id.Version
}

// String returns the object's name for messages, such as "apps/v1 Deployment shop/web".
func (id ID) String() string {
	name := id.Name
	if id.Namespace != "" {
		name = id.Namespace + "/" + id.Name
	}
	return id.APIVersion() + " " + id.Kind + " " + name
}

// ObjectKey identifies an object within a cluster in all versions of its API, between
// which clusters may convert it.
type ObjectKey struct{ Group, Kind, Namespace, Name string }

// Key returns the object's key.
func (id ID) Key() ObjectKey { return ObjectKey{id.Group, id.Kind, id.Namespace, id.Name} }

// Object is one Kubernetes object in canonical form.
type Object struct {
	ID      ID
	Digest  Digest
	Content []byte // canonical JSON, ending in a newline: equal objects have equal bytes
	Source  string // the file it was read from, such as "collectd/templates/daemonset.yaml"; for messages only
	Line    int    // of its document in the source, from 1; 0 if it is not known; for messages only
}

// String returns the object's name, never its content, which may hold secrets.
func (o Object) String() string { return o.ID.String() }

// GoString returns the object's name, never its content.
func (o Object) GoString() string { return "manifest.Object{" + o.ID.String() + "}" }

// LogValue returns the object's name, never its content.
func (o Object) LogValue() slog.Value { return slog.StringValue(o.ID.String()) }
