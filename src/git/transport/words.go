package transport

import (
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// KindOfMessage reads a kind out of what Git servers say; their protocol has no codes.
func KindOfMessage(text string) errs.Kind {
	text = strings.ToLower(text)
	switch {
	case containsAny(text, "not our ref", "not found", "does not exist", "does not appear", "no such", "not a valid object", "unadvertised object"):
		return errs.NotFound
	case containsAny(text, "fsck", "hasdot", "fullpathname", "nullsha1", "badtree", "malformed"):
		return errs.Invalid
	case containsAny(text, "exceeds maximum", "too large", "exceeds github", "larger than"):
		return errs.TooLarge
	case containsAny(text, "authentication failed", "invalid credentials", "could not authenticate"):
		return errs.Unauthorized
	case containsAny(text, "denied", "permission", "not allowed", "forbidden", "archived", "read-only", "read only"):
		return errs.Forbidden
	}
	return errs.Unavailable
}

// LostRace tells Git's own words for a branch that somebody else has moved, or is about to.
func LostRace(text string) bool {
	return containsAny(strings.ToLower(text), "cannot lock", "failed to update ref", "already exists", "but expected", "incorrect old value")
}

// LostObjects tells Git's words for a push that builds on what the server does not have.
func LostObjects(text string) bool {
	return strings.Contains(strings.ToLower(text), "missing necessary objects")
}

// HookDeclined tells Git's words for a refusal of a server's own rules.
func HookDeclined(text string) bool { return strings.Contains(strings.ToLower(text), "hook declined") }

func containsAny(text string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}
