package v2

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// secretWords are parts of the names that charts give to secret values, without
// '-' and '_', in lower case.
var secretWords = []string{
	"password", "passwd", "passphrase", "pwd", "secret", "token", "apikey", "privatekey", "accesskey", "credential",
}

// secretForms are prefixes of values that are secrets under any name: keys in PEM, tokens
// of GitHub, GitLab and Slack, keys of AWS, JSON web tokens.
var secretForms = []string{"-----BEGIN", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "eyJ"}

// looksSecret reports whether a Helm value is probably a secret. Override values have no
// schema, so it guesses by their key and their form.
func looksSecret(key, value string) bool {
	plain := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(key))
	for _, word := range secretWords {
		if strings.Contains(plain, word) {
			return true
		}
	}
	for _, form := range secretForms {
		if strings.HasPrefix(value, form) {
			return true
		}
	}
	return false
}

// Masked returns a copy that shows Mask for override values that look like secrets
// and are not empty.
func (g DeploymentIntentGroup) Masked() DeploymentIntentGroup {
	masked := make([]OverrideValue, len(g.Spec.Overrides))
	for i, o := range g.Spec.Overrides {
		masked[i] = o
		masked[i].Values = maps.Clone(o.Values)
		for key, value := range o.Values {
			if value != "" && looksSecret(key, value) {
				masked[i].Values[key] = Mask
			}
		}
	}
	g.Spec.Overrides = masked
	return g
}

// Unmask replaces each Mask with the value that old has for the same app, clusters and key. A
// Mask without such a value is a violation.
func (g *DeploymentIntentGroup) Unmask(old DeploymentIntentGroup) error {
	var c violationList
	for i, o := range g.Spec.Overrides {
		for _, key := range sortedKeys(o.Values) {
			if o.Values[key] != Mask {
				continue
			}
			value, ok := old.override(o, key)
			if !ok {
				c.fail(join(fmt.Sprintf("spec.overrideValues[%d].values", i), key), "%q stands for a stored value, but there is none", Mask)
				continue
			}
			o.Values[key] = value
		}
	}
	return c.err()
}

// override returns the value of a key for the app and the clusters of another entry; the last
// one counts, as for Helm.
func (g *DeploymentIntentGroup) override(of OverrideValue, key string) (value string, ok bool) {
	for _, o := range g.Spec.Overrides {
		if v, found := o.Values[key]; found && o.App == of.App && slices.EqualFunc(o.Clusters, of.Clusters, Selector.equal) {
			value, ok = v, true
		}
	}
	return value, ok
}
