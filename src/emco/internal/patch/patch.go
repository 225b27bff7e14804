// Package patch changes Kubernetes objects by JSON patches (RFC 6902), JSON merge patches
// (RFC 7386) and strategic merge patches, and adds networks to the pods of workloads.
package patch

import (
	"errors"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Type is a form of patches.
type Type string

// The forms.
const (
	JSON      Type = "json"      // a list of operations
	Merge     Type = "jsonmerge" // members replace members, null removes one
	Networks  Type = "networks"  // interfaces that the pods of a workload get; see PodNetworks
	Strategic Type = "merge"     // as Merge, but lists of built-in kinds merge by their keys; of custom kinds it is Merge
)

// Limits of one patch.
const (
	MaxText       = 1 << 20 // bytes
	MaxOperations = 1000    // of a JSON patch
)

// Apply returns the content of an object, in JSON, after a patch in JSON. The error is Invalid:
// the patch is no patch, does not fit the object, or is beyond the limits.
func Apply(t Type, id manifest.ID, content, text []byte) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil { // a patch from a user must not end the process
			out, err = nil, invalid(t, fmt.Errorf("it does not fit the object: %v", p))
		}
	}()
	if len(text) > MaxText {
		return nil, invalid(t, fmt.Errorf("it has %d bytes, above the limit of %d", len(text), MaxText))
	}
	switch t {
	case JSON:
		out, err = operate(content, text)
	case Merge:
		out, err = jsonpatch.MergePatch(content, text)
	case Strategic:
		out, err = merge(id, content, text)
	case Networks:
		out, err = addNetworks(id, content, text)
	default:
		err = errors.New("its type is neither json nor merge nor jsonmerge")
	}
	if err != nil {
		return nil, invalid(t, err)
	}
	if len(out) > manifest.MaxObject {
		return nil, invalid(t, fmt.Errorf("the object has %d bytes afterwards, above the limit of %d", len(out), manifest.MaxObject))
	}
	return out, nil
}

func invalid(t Type, err error) error {
	return errs.New(errs.Invalid, fmt.Sprintf("%s patch: %s", t, err))
}

// operate applies a JSON patch.
func operate(content, text []byte) ([]byte, error) {
	operations, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, err
	}
	if len(operations) > MaxOperations {
		return nil, fmt.Errorf("it has %d operations, above the limit of %d", len(operations), MaxOperations)
	}
	o := jsonpatch.NewApplyOptions()
	o.AccumulatedCopySizeLimit = manifest.MaxObject
	return operations.ApplyWithOptions(content, o)
}

// merge applies a strategic merge patch; of kinds that are not built in, a JSON merge patch, as
// their lists have no known keys.
func merge(id manifest.ID, content, text []byte) ([]byte, error) {
	kind, err := scheme.Scheme.New(schema.GroupVersionKind{Group: id.Group, Version: id.Version, Kind: id.Kind})
	if err != nil {
		return jsonpatch.MergePatch(content, text)
	}
	return strategicpatch.StrategicMergePatch(content, text, kind)
}
