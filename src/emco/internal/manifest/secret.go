package manifest

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
)

// checkSecret refuses a Secret whose data is not base64: an API server would answer with an
// internal error that names neither the cause nor the place. Errors do not contain values.
func checkSecret(id ID, t objectTree) error {
	if !isSecret(id) {
		return nil
	}
	data, _ := t["data"].(objectTree)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		value, isText := data[key].(string)
		if _, err := base64.StdEncoding.DecodeString(value); err != nil || !isText && data[key] != nil {
			return fmt.Errorf("%s: data.%s is not base64; encode it, or use stringData", id, key)
		}
	}
	return nil
}

func isSecret(id ID) bool { return id.Group == "" && id.Kind == "Secret" }

// Masked returns an object's content for people to read, with the values of a Secret
// hidden.
func Masked(o Object) ([]byte, error) {
	if !isSecret(o.ID) {
		return o.Content, nil
	}
	t, err := decode(o)
	if err != nil {
		return nil, err
	}
	for _, member := range []string{"data", "stringData"} {
		values, _ := t[member].(objectTree)
		for key := range values {
			values[key] = "***"
		}
	}
	return encode(t)
}
