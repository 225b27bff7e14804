package transport

import (
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// KindOfMessage derives a kind from a Git server's message; the protocol has no codes.
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

// LostRace recognises Git's messages about a branch that someone else has moved, or is moving.
func LostRace(text string) bool {
	return containsAny(strings.ToLower(text), "cannot lock", "failed to update ref", "already exists", "but expected", "incorrect old value")
}

// LostObjects recognises Git's messages about a push that builds on objects which the server lacks.
func LostObjects(text string) bool {
	return strings.Contains(strings.ToLower(text), "missing necessary objects")
}

// HookDeclined recognises Git's messages about a refusal by the server's own rules.
func HookDeclined(text string) bool { return strings.Contains(strings.ToLower(text), "hook declined") }

func containsAny(text string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}
