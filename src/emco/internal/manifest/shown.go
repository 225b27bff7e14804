package manifest

import (
	"bytes"
	"maps"
	"reflect"
)

// Placeholders for the values of a Secret.
const (
	mask       = "***"
	maskBefore = "*** (before)"
	maskAfter  = "*** (after)"
)

// Compared returns two versions of an object for people to compare. It hides the values of
// a Secret; values that differ become "*** (before)" and "*** (after)". It omits the stamp,
// which follows from the content, unless nothing else differs.
func Compared(before, after Object) (shownBefore, shownAfter []byte, err error) {
	b, err := decode(before)
	if err != nil {
		return nil, nil, err
	}
	a, err := decode(after)
	if err != nil {
		return nil, nil, err
	}
	if isSecret(before.ID) || isSecret(after.ID) {
		maskPair(b, a)
	}
	bare := [2][]byte{}
	for i, t := range []objectTree{b, a} {
		if bare[i], err = encode(unstamped(t)); err != nil {
			return nil, nil, err
		}
	}
	if !bytes.Equal(bare[0], bare[1]) {
		return bare[0], bare[1], nil
	}
	if shownBefore, err = encode(b); err != nil {
		return nil, nil, err
	}
	shownAfter, err = encode(a)
	return shownBefore, shownAfter, err
}

// Shown returns an object for people to read: without its stamp, and with the values of
// a Secret hidden.
func Shown(o Object) ([]byte, error) {
	t, err := decode(o)
	if err != nil {
		return nil, err
	}
	if isSecret(o.ID) {
		maskPair(t, objectTree{})
	}
	return encode(unstamped(t))
}

// maskPair hides the values of two versions of a Secret.
func maskPair(before, after objectTree) {
	for _, member := range []string{"data", "stringData"} {
		b, _ := before[member].(objectTree)
		a, _ := after[member].(objectTree)
		was := maps.Clone(b)
		for key := range b {
			b[key] = mask
		}
		for key, value := range a {
			a[key] = mask
			if old, ok := was[key]; ok && !reflect.DeepEqual(old, value) {
				b[key], a[key] = maskBefore, maskAfter
			}
		}
	}
}

// unstamped returns a copy of a tree without its stamp.
func unstamped(t objectTree) objectTree {
	notes, _ := metadata(t)["annotations"].(objectTree)
	if _, ok := notes[StampKey]; !ok {
		return t
	}
	meta := maps.Clone(metadata(t))
	t, notes = maps.Clone(t), maps.Clone(notes)
	delete(notes, StampKey)
	meta["annotations"] = notes
	if len(notes) == 0 {
		delete(meta, "annotations")
	}
	t["metadata"] = meta
	return t
}
