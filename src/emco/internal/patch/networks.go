package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Annotations of pods that name their networks.
const (
	attachmentsKey = "k8s.v1.cni.cncf.io/networks"      // of Multus: which plugins are called
	interfacesKey  = "k8s.plugin.opnfv.org/nfn-network" // of Nodus: which interfaces it makes
	nodusType      = "ovn4nfv"                          // the only type of interfacesKey
	nodusName      = "ovn-networkobj"                   // Nodus' NetworkAttachmentDefinition,
	nodusNamespace = "default"                          // and its namespace
	maxAnnotations = 256 << 10                          // bytes of all annotations of an object, in Kubernetes

)

// PodNetworks is a patch of the form Networks: each interface is added to those that Nodus makes for the pods of a workload,
// in place of one of the same name. Networks of other plugins stay.
type PodNetworks struct {
	Interfaces []json.RawMessage `json:"interfaces"` // as in the annotation, with a member "interface"
}

// addNetworks returns a workload whose pods have the interfaces of a patch.
func addNetworks(id manifest.ID, content, text []byte) ([]byte, error) {
	var patch PodNetworks
	if err := json.Unmarshal(text, &patch); err != nil {
		return nil, err
	}
	template, known := manifest.PodTemplate(id.Kind)
	if !known {
		return nil, fmt.Errorf("it is not known where a %s has its pods", id.Kind)
	}
	return within(content, append(slices.Clone(template), "metadata", "annotations"), func(value []byte) ([]byte, error) {
		annotations := map[string]string{}
		if value != nil {
			if err := json.Unmarshal(value, &annotations); err != nil {
				return nil, fmt.Errorf("its pods' annotations are not texts: %w", err)
			}
		}
		if annotations == nil { // "annotations: null"
			annotations = map[string]string{}
		}
		var err error
		if annotations[attachmentsKey], err = withAttachment(annotations[attachmentsKey]); err != nil {
			return nil, fmt.Errorf("annotation %s: %w", attachmentsKey, err)
		}
		if annotations[interfacesKey], err = withInterfaces(annotations[interfacesKey], patch.Interfaces); err != nil {
			return nil, fmt.Errorf("annotation %s: %w", interfacesKey, err)
		}
		size := 0
		for key, value := range annotations {
			size += len(key) + len(value)
		}
		if size > maxAnnotations {
			return nil, fmt.Errorf("its pods' annotations have %d bytes, above the limit of %d", size, maxAnnotations)
		}
		return json.Marshal(annotations)
	})
}

// within returns an object with the value at a path changed. change gets nil for a value that is not there.
func within(object []byte, path []string, change func([]byte) ([]byte, error)) ([]byte, error) {
	if len(path) == 0 {
		return change(object)
	}
	members := map[string]json.RawMessage{}
	if object != nil {
		if err := json.Unmarshal(object, &members); err != nil {
			return nil, fmt.Errorf("the value that should have %s is no object", path[0])
		}
	}
	if members == nil { // null
		members = map[string]json.RawMessage{}
	}
	value, err := within(members[path[0]], path[1:], change)
	if err != nil {
		return nil, err
	}
	members[path[0]] = value
	return json.Marshal(members)
}

// withAttachment returns Multus' annotation with Nodus in it. The annotation is a list in JSON, or names separated by
// commas: [NAMESPACE/]NAME[@INTERFACE].
func withAttachment(text string) (string, error) {
	text = strings.TrimSpace(text)
	if text != "" && text[0] != '[' {
		for entry := range strings.SplitSeq(text, ",") {
			name, _, _ := strings.Cut(strings.TrimSpace(entry), "@")
			if name == nodusName || name == nodusNamespace+"/"+nodusName {
				return text, nil
			}
		}
		return text + "," + nodusNamespace + "/" + nodusName, nil
	}
	type attachment struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	}
	all, err := listOf(text)
	if err != nil {
		return "", err
	}
	for _, entry := range all {
		var a attachment
		if err := json.Unmarshal(entry, &a); err != nil {
			return "", err
		}
		if a.Name == nodusName && (a.Namespace == "" || a.Namespace == nodusNamespace) {
			return text, nil
		}
	}
	entry, err := json.Marshal(attachment{nodusName, nodusNamespace})
	if err != nil {
		return "", err
	}
	out, err := json.Marshal(append(all, entry))
	return string(out), err
}

// listOf returns the values of a list in JSON; none if the text is empty.
func listOf(text string) (out []json.RawMessage, err error) {
	if text == "" {
		return nil, nil
	}
	err = json.Unmarshal([]byte(text), &out)
	return out, err
}

// withInterfaces returns Nodus' annotation with interfaces added, each in place of one of the same name.
func withInterfaces(text string, add []json.RawMessage) (string, error) {
	var annotation struct {
		Type       string            `json:"type"`
		Interfaces []json.RawMessage `json:"interface"`
	}
	if strings.TrimSpace(text) != "" {
		if err := json.Unmarshal([]byte(text), &annotation); err != nil {
			return "", err
		}
		if annotation.Type != nodusType {
			return "", fmt.Errorf("its type is %q, not %s", annotation.Type, nodusType)
		}
	}
	annotation.Type = nodusType
	at := map[string]int{} // where interfaces are, by name
	for i, entry := range annotation.Interfaces {
		name, err := interfaceOf(entry)
		if err != nil {
			return "", err
		}
		at[name] = i
	}
	for _, entry := range add {
		name, err := interfaceOf(entry)
		if err != nil {
			return "", err
		}
		if i, taken := at[name]; taken {
			annotation.Interfaces[i] = entry
			continue
		}
		at[name] = len(annotation.Interfaces)
		annotation.Interfaces = append(annotation.Interfaces, entry)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(annotation)
	return strings.TrimSuffix(out.String(), "\n"), err
}

// interfaceOf returns the name of an interface of Nodus' annotation.
func interfaceOf(entry []byte) (string, error) {
	var i struct {
		Interface string `json:"interface"`
	}
	err := json.Unmarshal(entry, &i)
	return i.Interface, err
}
