// Package pointer holds what the pointer objects of all backends have in common: names that
// Kubernetes accepts, labels for people and agents, and their form in a file.
package pointer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

// Labels of pointer objects, for people and for the agent on the edge.
const (
	labelManagedBy  = "app.kubernetes.io/managed-by"
	labelDeployment = "emco/deployment"
	labelApp        = "emco/app"
)

// Object is a pointer object. It has no status: the types of reconcilers would write an
// empty one.
type Object struct {
	APIVersion string
	Kind       string
	Metadata   Metadata
	Spec       any            // nil if the object has none
	Members    map[string]any // other members at the top, such as those of a RoleBinding
}

// Metadata is the part of an object's metadata that backends set.
type Metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Finalizers  []string          `json:"finalizers,omitempty"`
}

// MarshalJSON returns the object in the form of the Kubernetes API.
func (o Object) MarshalJSON() ([]byte, error) {
	tree := map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "metadata": o.Metadata}
	if o.Spec != nil {
		tree["spec"] = o.Spec
	}
	for name, member := range o.Members {
		tree[name] = member
	}
	return json.Marshal(tree)
}

// File returns the content of a file that holds the objects, in their order, as the
// documents of a YAML stream.
func File(objects []Object) ([]byte, error) {
	var out bytes.Buffer
	for i, o := range objects {
		if i > 0 {
			out.WriteString("---\n")
		}
		text, err := syncer.Encode(o)
		if err != nil {
			return nil, err
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}

// Labels returns the labels of an object that is about one app of a target, or about the
// target as a whole when app is empty.
func Labels(t syncer.Target, app string) map[string]string {
	out := map[string]string{labelManagedBy: "emco", labelDeployment: Name(string(t.Deployment))}
	if app != "" {
		key, value := manifest.DeploymentLabel(t.Deployment, app) // like the objects of the app
		out[key] = value
		out[labelApp] = app
		if len(validation.IsValidLabelValue(app)) > 0 {
			out[labelApp] = Name(app)
		}
	}
	return out
}

// Lengths of names, in bytes.
const (
	maxName = 63 // of a DNS label
	hashLen = 8  // hexadecimal digits of the hash in rewritten names
)

// Name returns s as a name that is valid both for an object and as the value of a label:
// reconcilers label everything that they apply with the names of their objects. The API allows
// longer names, capitals and underscores; those are rewritten, with a hash.
func Name(s string) string { return Short(s, maxName) }

// Short is Name with at most most bytes; most must be 12 or more.
func Short(s string, most int) string {
	if len(s) <= most && len(validation.IsDNS1123Label(s)) == 0 {
		return s
	}
	return Tagged(s, s, most)
}

// Tagged returns a name of at most most bytes (12 or more) that begins with readable and
// ends with a hash of all.
func Tagged(readable, all string, most int) string {
	sum := sha256.Sum256([]byte(all))
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(readable))
	return strings.TrimLeft(strings.Trim(plain[:min(len(plain), most-hashLen-1)], "-")+"-", "-") + hex.EncodeToString(sum[:])[:hashLen]
}

// CheckName refuses a name that Kubernetes would refuse on the edge, out of the user's
// sight. The empty name passes.
func CheckName(backend, key, name string) error {
	if name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
		return errs.E(errs.Invalid, "open", "sync backend "+backend, errors.New(key+" is not a name for a Kubernetes object"))
	}
	return nil
}
