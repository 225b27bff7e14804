package anchor

import (
	"errors"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/nearest"
)

// Section is the name of a service's section in upstream's configuration file, in lower case.
type Section string

// The sections. Ingress, if present, replaces all others.
const (
	Ingress      Section = "ingress"
	Orchestrator Section = "orchestrator"
	Clm          Section = "clm"
	Ncm          Section = "ncm"
	Dcm          Section = "dcm"
	Rsync        Section = "rsync"
	OvnAction    Section = "ovnaction"
	Gac          Section = "gac"
	Dtc          Section = "dtc"
	HpaPlacement Section = "hpaplacement"
	Sfc          Section = "sfc"
	SfcClient    Section = "sfcclient"
	WorkflowMgr  Section = "workflowmgr"
	Tac          Section = "tac"
	CaCert       Section = "cacert"
	Policy       Section = "policy"
)

// roots are the first segments of documents, which errors suggest. SectionOf knows more.
var roots = []string{
	"cluster-providers", "clm-controllers", "controllers", "dtc-controllers", "projects", "policy", "roles", "role-bindings",
}

// intentSections maps the collections below a deployment intent group to their services.
var intentSections = map[string]Section{
	"network-chains":             Sfc,
	"sfc-clients":                SfcClient,
	"network-controller-intent":  OvnAction,
	"traffic-group-intents":      Dtc,
	"generic-k8s-intents":        Gac,
	"hpa-intents":                HpaPlacement,
	"temporal-workflow-intents":  WorkflowMgr,
	"temporal-action-controller": Tac,
	"policy-intents":             Policy,
}

// SectionOf returns the service of an anchor. The error is Invalid, with upstream's text
// "Invalid baseUrl: ", for anchors without a service: empty, with a leading slash, or with
// an unknown first segment.
func SectionOf(anchor string) (Section, error) {
	path, _, _ := strings.Cut(anchor, "?")
	s := strings.Split(path, "/")
	switch s[0] {
	case "cluster-providers":
		return clusterSection(s), nil
	case "clm-controllers":
		return Clm, nil
	case "controllers":
		return Orchestrator, nil
	case "dtc-controllers":
		return Dtc, nil
	case "policy":
		return Policy, nil
	case "projects":
		return projectSection(s), nil
	case "views": // ours: counts and pages of everything
		return Orchestrator, nil
	case "roles", "role-bindings", "tokens", "auth", "audit": // ours: who may do what
		return Orchestrator, nil
	case "git": // ours: branches that are written to
		return Rsync, nil
	}
	return "", &UnknownRootError{Anchor: anchor, text: "Invalid baseUrl: " + anchor + advice(anchor, s[0])}
}

// UnknownRootError is the error of an anchor that begins with no collection of the API.
type UnknownRootError struct {
	Anchor string
	text   string
}

func (u *UnknownRootError) Error() string { return u.text }

// Unwrap makes it Invalid.
func (u *UnknownRootError) Unwrap() error { return errs.New(errs.Invalid, u.text) }

// clusterSection decides below cluster-providers. The network controller owns networks,
// and the actions and the status of a cluster as a whole.
func clusterSection(s []string) Section {
	switch at := segment(s, 4); {
	case slices.Contains([]string{"networks", "provider-networks", "apply", "terminate", "stop"}, at),
		strings.HasPrefix(at, "status"):
		return Ncm
	case segment(s, 2) == "ca-certs":
		return CaCert
	}
	return Clm
}

// projectSection decides below projects: by the collection of the project, then by the kind
// of intent of a deployment intent group.
func projectSection(s []string) Section {
	switch segment(s, 2) {
	case "logical-clouds":
		return Dcm
	case "ca-certs":
		return CaCert
	case "policy":
		return Policy
	}
	if section, ok := intentSections[segment(s, 7)]; ok {
		return section
	}
	return Orchestrator
}

// segment returns the segment at i, empty if the anchor is shorter.
func segment(s []string, i int) string {
	if i < len(s) {
		return s[i]
	}
	return ""
}

// advice returns what the first segment should be.
func advice(anchor, root string) string {
	switch name, ok := nearest.To(root, roots); {
	case anchor == "":
		return "resourceContext.anchor is required, and starts with one of " + strings.Join(roots, ", ")
	case root == "":
		return `: an anchor has no leading slash; write "` + strings.TrimLeft(anchor, "/") + `"`
	case ok:
		return `: did you mean "` + name + `"?`
	}
	return ": an anchor starts with " + strings.Join(roots, ", ")
}

// noValue is what a template prints for a key that no values file has.
const noValue = "<no value>"

// errNoValue is the cause of refusals of names and anchors with a missing value.
var errNoValue = errors.New(`holds "` + noValue + `": a key of its template has no value; give it in a file of -v`)

// errTemplate is the cause of refusals of templates that were not expanded.
var errTemplate = errors.New("is that of a template; give its values with -v FILE")

// ErrMalformed is the cause of Check's errors.
var ErrMalformed = errors.New("holds a space, a control character, '#' or '..'")

// Check refuses anchors that cannot be part of a URL. The error is Invalid.
func Check(anchor string) error {
	if strings.Contains(anchor, noValue) {
		return errs.E(errs.Invalid, "anchor", anchor, errNoValue)
	}
	if strings.Contains(anchor, "{{") {
		return errs.E(errs.Invalid, "anchor", anchor, errTemplate)
	}
	path, _, _ := strings.Cut(anchor, "?")
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return errs.E(errs.Invalid, "anchor", anchor, ErrMalformed)
		}
	}
	if strings.ContainsFunc(anchor, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '#' || r == '\\' }) {
		return errs.E(errs.Invalid, "anchor", anchor, ErrMalformed)
	}
	return nil
}
