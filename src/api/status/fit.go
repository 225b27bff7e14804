package status

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// Limits of a report. Encode cuts longer values; Decode refuses or omits them.
const (
	MaxSize   = 4 << 20 // bytes of a document
	MaxReason = 256     // bytes of an object's reason
	MaxError  = 1024    // bytes of an app's error
	shortened = 64      // bytes of a reason when the report is too large
	maxUnseen = 1000    // kinds
)

// Encode returns a report as compact JSON of at most limit bytes; 0 means MaxSize. Git and
// HTTP compress it. Texts that are too long are cut. If the report is too large, classes of
// nodes that take more than a quarter of the limit are counted as cut, reasons
// are shortened and then objects are left out, the least urgent first: Current ones that
// belong to no bundle, other Current ones, those in progress, and so on; Truncated counts
// them. The given report is not changed.
func Encode(r Report, limit int) ([]byte, error) {
	if limit <= 0 || limit > MaxSize {
		limit = MaxSize
	}
	r.Schema = Schema
	r.Unseen = r.Unseen[:min(len(r.Unseen), maxUnseen)]
	r.Capacity = cleanCapacity(r.Capacity)
	r.Apps = trimmed(r.Apps, MaxReason)
	text, err := json.Marshal(r)
	if err != nil || len(text) <= limit {
		return text, err
	}
	r.Capacity = cutClasses(r.Capacity, limit/4)
	r.Apps = trimmed(r.Apps, shortened)
	r = fit(r, limit)
	return json.Marshal(r)
}

// trimmed returns a copy of apps with no text above its limit.
func trimmed(apps []App, reason int) []App {
	out := slices.Clone(apps)
	for i, a := range out {
		out[i].Error = short(a.Error, MaxError)
		out[i].Objects = slices.Clone(a.Objects)
		for k := range out[i].Objects {
			out[i].Objects[k].Reason = short(out[i].Objects[k].Reason, reason)
		}
	}
	return out
}

// short cuts a text to a number of bytes without cutting a character.
func short(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "")
}

// objectIndex locates an object in a report.
type objectIndex struct{ app, object, rank int }

// fit leaves out objects, and apps whose headers alone are too many, until the report
// fits into limit bytes.
func fit(r Report, limit int) Report {
	room := limit - headers(r)
	for len(r.Apps) > 0 && room < limit/2 {
		last := len(r.Apps) - 1
		room += size(header(r.Apps[last])) + 1
		r.Apps, r.Truncated = r.Apps[:last], r.Truncated+1
	}
	keep := make(map[objectIndex]bool)
	for _, p := range ranked(r.Apps) {
		if room -= size(r.Apps[p.app].Objects[p.object]) + 1; room < 0 {
			break
		}
		keep[p] = true
	}
	for i := range r.Apps {
		r.Apps[i] = kept(r.Apps[i], i, keep)
	}
	return r
}

// headers is the size of a report without objects, with room for counts that grow.
func headers(r Report) int {
	bare := r
	bare.Apps = make([]App, len(r.Apps))
	for i, a := range r.Apps {
		bare.Apps[i] = header(a)
	}
	return size(bare) + len(`,"truncated":99999999`)
}

// header is an app without its objects, with counts of their maximal length.
func header(a App) App {
	a.Objects, a.Truncated = []Object{{}}, 99999999
	return a
}

func kept(a App, index int, keep map[objectIndex]bool) App {
	var objects []Object
	for k, o := range a.Objects {
		if keep[objectIndex{index, k, rank(o)}] {
			objects = append(objects, o)
		}
	}
	a.Truncated += len(a.Objects) - len(objects)
	a.Objects = objects
	return a
}

// ranked lists all objects, those that must not be left out first.
func ranked(apps []App) []objectIndex {
	var all []objectIndex
	for i, a := range apps {
		for k, o := range a.Objects {
			all = append(all, objectIndex{i, k, rank(o)})
		}
	}
	slices.SortStableFunc(all, func(a, b objectIndex) int { return cmp.Compare(a.rank, b.rank) })
	return all
}

// rank is low for objects that need an operator's attention.
func rank(o Object) int {
	switch {
	case o.Status == Failed:
		return 0
	case o.Status == InProgress:
		return 2
	case o.Status != Current:
		return 1
	case o.Content != "" || o.Unread:
		return 3
	}
	return 4
}

func size[T any](v T) int {
	text, err := json.Marshal(v)
	if err != nil {
		return MaxSize // of plain strings and numbers; it does not happen
	}
	return len(text)
}
