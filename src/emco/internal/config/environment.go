package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/nearest"
)

// environment is the variables of a process, by name.
type environment map[string]string

// environmentOf reads variables in the form of os.Environ. Of several with one name, the last one counts.
func environmentOf(variables []string) environment {
	out := environment{}
	for _, v := range variables {
		if name, value, ok := strings.Cut(v, "="); ok {
			out[name] = value
		}
	}
	return out
}

// serviceLink matches variables that Kubernetes sets in a pod for a Service, such as EMCO_HTTP_PORT_9015_TCP for one called
// emco-http.
var serviceLink = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_.+)?)?)$`)

// warnOfUnknown calls warn for each variable that looks like a setting and is none: it begins with EMCO_ and the name of a section.
// Other variables that begin with EMCO_ belong to emcoctl, or to the user. key is the URL of a key (see Encryption.KEK), which may be
// in a variable of any name.
func (e environment) warnOfUnknown(settings []namedSetting, key string, warn func(string)) {
	known, sections := map[string]bool{strings.TrimPrefix(key, "env://"): true}, map[string]bool{}
	for _, s := range settings {
		known[s.formerEnv()] = true
		if section, _, ok := strings.Cut(s.name, "."); ok {
			sections[section] = true
		}
	}
	var names []string
	for _, s := range settings {
		if !s.fileOnly() {
			known[s.env()] = true
			names = append(names, s.env())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e)) {
		section, _, _ := strings.Cut(strings.TrimPrefix(name, "EMCO_"), "_")
		if !strings.HasPrefix(name, "EMCO_") || !sections[strings.ToLower(section)] || known[name] || serviceLink.MatchString(name) {
			continue
		}
		text := name + " is no setting and has no effect"
		if meant, ok := nearest.To(name, names); ok {
			text += "; did you mean " + meant + "?"
		}
		warn(text + "; emco -help lists the settings")
	}
}
