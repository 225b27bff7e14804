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

// othersVariables are variables that begin with EMCO_ and are no settings, but have an effect elsewhere: -config, emcoctl, and programs
// that are built for tests.
var othersVariables = []string{
	"EMCO_CONFIG", "EMCO_URL", "EMCO_TOKEN", "EMCO_CA_FILE", "EMCO_CERT_FILE", "EMCO_KEY_FILE", "EMCO_FAILPOINTS",
}

// warnOfUnknown calls warn for each variable that begins with EMCO_ and has no effect. key is the URL of a key (see Encryption.KEK),
// which may be in a variable of any name.
func (e environment) warnOfUnknown(settings []namedSetting, key string, warn func(string)) {
	known := map[string]bool{strings.TrimPrefix(key, "env://"): true}
	for _, name := range othersVariables {
		known[name] = true
	}
	var names []string
	for _, s := range settings {
		if !s.fileOnly() {
			known[s.env()], known[s.formerEnv()] = true, true
			names = append(names, s.env())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e)) {
		if !strings.HasPrefix(name, "EMCO_") || known[name] || serviceLink.MatchString(name) {
			continue
		}
		if s, ok := fileSetting(settings, name); ok {
			warn(name + " has no effect: only the configuration file has " + s.name)
			continue
		}
		text := name + " is no setting and has no effect"
		if meant, ok := nearestVariable(name, names); ok {
			text += "; did you mean " + meant + "?"
		}
		warn(text + "; emco -help lists the settings")
	}
}

// fileSetting finds the setting that only a file can have, and a variable is named for, or for a part of it.
func fileSetting(settings []namedSetting, variable string) (namedSetting, bool) {
	for _, s := range settings {
		if s.fileOnly() && strings.HasPrefix(variable+"_", s.env()+"_") {
			return s, true
		}
	}
	return namedSetting{}, false
}

// nearestVariable returns the variable that a name differs little from, or that it is without its section.
func nearestVariable(name string, variables []string) (string, bool) {
	if near, ok := nearest.To(name, variables); ok {
		return near, true
	}
	rest := strings.TrimPrefix(name, "EMCO")
	i := slices.IndexFunc(variables, func(v string) bool { return strings.HasSuffix(v, rest) })
	if i < 0 {
		return "", false
	}
	return variables[i], true
}
