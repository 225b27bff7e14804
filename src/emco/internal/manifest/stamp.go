package manifest

import "fmt"

// StampKey is the annotation that identifies an object's content. It distinguishes the desired
// version on a cluster from an earlier one.
const StampKey = "emco/content"

// Lengths of stamps, in hexadecimal digits. A Secret's stamp is so short that many contents
// share it: it must not help to confirm a guess of the Secret.
const (
	stampLength       = 16
	secretStampLength = 4
)

// stamp annotates an object with a digest of its other content.
func stamp(t objectTree, id ID) error {
	meta := metadata(t)
	notes, ok := meta["annotations"].(objectTree)
	if v := meta["annotations"]; !ok && v != nil {
		return fmt.Errorf("%s: annotations must be a mapping", id)
	}
	delete(notes, StampKey)
	content, err := encode(t)
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	if !ok {
		notes = objectTree{}
		meta["annotations"] = notes
	}
	length := stampLength
	if id.Group == "" && id.Kind == "Secret" {
		length = secretStampLength
	}
	notes[StampKey] = string(DigestOf(content)[:length])
	return nil
}

// Stamp returns an object's stamp, empty if it has none.
func (o Object) Stamp() string { return o.Annotations()[StampKey] }
