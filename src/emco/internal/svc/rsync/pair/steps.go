package pair

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/steps"
)

// The statuses of objects that matter here; the values are those of kstatus.
const (
	current  = "Current"
	failing  = "Failed"
	notFound = "NotFound"
)

// stepCheck is the result of checking a step's need in a report.
type stepCheck struct {
	Met    bool
	Failed bool   // the hook has failed for good
	Why    string // what is waited for, or why the hook failed
}

// CheckStep compares what a step needs with the report on its pair; r is nil if there is none.
func CheckStep(s steps.Step, r *appcontext.Report) stepCheck {
	if s.Need == steps.Nothing {
		return stepCheck{Met: true}
	}
	seen := byID(r)
	for _, ref := range s.About {
		if v := checkObject(s, ref, r, seen); !v.Met {
			return v
		}
	}
	return stepCheck{Met: true}
}

func checkObject(s steps.Step, ref appcontext.Ref, r *appcontext.Report, seen map[manifest.ID]appcontext.ResourceStatus) stepCheck {
	have, listed := seen[steps.Key(ref.ID)]
	if s.Need == steps.Gone {
		if gone(r, have, listed) {
			return stepCheck{Met: true}
		}
		return stepCheck{Why: fmt.Sprintf("waits for %s %s to be gone: %s", ref.Kind, ref.Name, describe(have, listed))}
	}
	switch {
	case listed && have.Status == current && (ref.Stamp == "" || have.Content == ref.Stamp):
		return stepCheck{Met: true}
	case s.Need == steps.Complete && steps.Ends(ref.ID) && have.Status == failing && have.Content == ref.Stamp:
		return stepCheck{Failed: true, Why: Clip(fmt.Sprintf("%s failed: %s", s, cmp.Or(have.Reason, "the cluster gives no reason")))}
	case s.Need == steps.Complete:
		return stepCheck{Why: Clip(fmt.Sprintf("waits for %s: %s", s, describeContent(ref, have, listed)))}
	}
	return stepCheck{Why: Clip(fmt.Sprintf("waits for %s: %s %s: %s", s, ref.Kind, ref.Name, describeContent(ref, have, listed)))}
}

// gone reports whether an object is absent. Reports on directly watched clusters name all
// objects that are watched; agents name those that exist. Without any report, nothing has
// existed long enough to be reported.
func gone(r *appcontext.Report, have appcontext.ResourceStatus, listed bool) bool {
	if r == nil {
		return true
	}
	if listed {
		return have.Status == notFound
	}
	return r.Seq > 0 && r.Truncated == 0
}

// ReadyIn reports whether a report shows all objects of a bundle as current, in exactly the
// bundle's content. If not, why names the first that is not.
func ReadyIn(b appcontext.Bundle, r *appcontext.Report) (ready bool, why string) {
	seen := byID(r)
	for _, ref := range b.Objects {
		have, listed := seen[steps.Key(ref.ID)]
		if !listed || have.Status != current || ref.Stamp != "" && have.Content != ref.Stamp {
			return false, Clip(fmt.Sprintf("%s %s: %s", ref.Kind, ref.Name, describeContent(ref, have, listed)))
		}
	}
	return true, ""
}

func byID(r *appcontext.Report) map[manifest.ID]appcontext.ResourceStatus {
	if r == nil {
		return nil
	}
	out := make(map[manifest.ID]appcontext.ResourceStatus, len(r.Resources))
	for _, s := range r.Resources {
		out[steps.Key(s.ID)] = s
	}
	return out
}

// describeContent describes the state of an object; that its content is wrong comes first.
func describeContent(ref appcontext.Ref, have appcontext.ResourceStatus, listed bool) string {
	if listed && have.Status != notFound && ref.Stamp != "" && have.Content != ref.Stamp {
		return strings.TrimSuffix("its content differs; "+have.Reason, "; ")
	}
	return describe(have, listed)
}

func describe(have appcontext.ResourceStatus, listed bool) string {
	switch {
	case !listed:
		return "not reported yet"
	case have.Reason == "":
		return have.Status
	}
	return have.Status + ": " + have.Reason
}
