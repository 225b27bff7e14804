package rsync

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/steps"
)

// The statuses of objects that matter here, in the words of kstatus.
const (
	current  = "Current"
	failing  = "Failed"
	notFound = "NotFound"
)

// maxWords bounds what is told of one object or pair, in bytes.
const maxWords = 240

// verdict is what a report says of a step's need.
type verdict struct {
	met    bool
	failed bool   // the hook has failed, and will not succeed by itself
	text   string // what is waited for, or why the hook failed
}

// judge compares a step's need with what the cluster reported; r is nil if it has said
// nothing of the pair.
func judge(s steps.Step, r *appcontext.Report) verdict {
	if s.Need == steps.Nothing {
		return verdict{met: true}
	}
	seen := indexed(r)
	for _, ref := range s.About {
		if v := judgeOne(s, ref, r, seen); !v.met {
			return v
		}
	}
	return verdict{met: true}
}

func judgeOne(s steps.Step, ref appcontext.Ref, r *appcontext.Report, seen map[manifest.ID]appcontext.ResourceStatus) verdict {
	have, listed := seen[steps.Key(ref.ID)]
	if s.Need == steps.Gone {
		if gone(r, have, listed) {
			return verdict{met: true}
		}
		return verdict{text: fmt.Sprintf("waits for %s %s to be gone: %s", ref.Kind, ref.Name, state(have, listed))}
	}
	switch {
	case listed && have.Status == current && (ref.Stamp == "" || have.Content == ref.Stamp):
		return verdict{met: true}
	case s.Need == steps.Complete && steps.Ends(ref.ID) && have.Status == failing && have.Content == ref.Stamp:
		return verdict{failed: true, text: clipped(fmt.Sprintf("%s failed: %s", s, cmp.Or(have.Reason, "the cluster gives no reason")))}
	case s.Need == steps.Complete:
		return verdict{text: clipped(fmt.Sprintf("waits for %s: %s", s, inContent(ref, have, listed)))}
	}
	return verdict{text: clipped(fmt.Sprintf("waits for %s: %s %s: %s", s, ref.Kind, ref.Name, inContent(ref, have, listed)))}
}

// gone reports whether an object is not there. What watches a cluster directly names all
// that it looks for; an agent names what there is. Without any report of the pair
// nothing of it has been there long enough to be seen.
func gone(r *appcontext.Report, have appcontext.ResourceStatus, listed bool) bool {
	if r == nil {
		return true
	}
	if listed {
		return have.Status == notFound
	}
	return r.Seq > 0 && r.Truncated == 0
}

// readyIn reports whether a cluster says that all objects of a bundle are there, in that
// content and in order; if not, why names the first that is not.
func readyIn(b appcontext.Bundle, r *appcontext.Report) (ready bool, why string) {
	seen := indexed(r)
	for _, ref := range b.Objects {
		have, listed := seen[steps.Key(ref.ID)]
		if !listed || have.Status != current || ref.Stamp != "" && have.Content != ref.Stamp {
			return false, clipped(fmt.Sprintf("%s %s: %s", ref.Kind, ref.Name, inContent(ref, have, listed)))
		}
	}
	return true, ""
}

func indexed(r *appcontext.Report) map[manifest.ID]appcontext.ResourceStatus {
	if r == nil {
		return nil
	}
	out := make(map[manifest.ID]appcontext.ResourceStatus, len(r.Resources))
	for _, s := range r.Resources {
		out[steps.Key(s.ID)] = s
	}
	return out
}

// inContent is an object's state in words; that it is the wrong content comes first.
func inContent(ref appcontext.Ref, have appcontext.ResourceStatus, listed bool) string {
	if listed && have.Status != notFound && ref.Stamp != "" && have.Content != ref.Stamp {
		return strings.TrimSuffix("another content is there; "+have.Reason, "; ")
	}
	return state(have, listed)
}

func state(have appcontext.ResourceStatus, listed bool) string {
	switch {
	case !listed:
		return "not reported yet"
	case have.Reason == "":
		return have.Status
	}
	return have.Status + ": " + have.Reason
}

// clipped bounds text that others wrote.
func clipped(text string) string {
	if len(text) > maxWords {
		return strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	return text
}
