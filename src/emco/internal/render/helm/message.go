package helm

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// maxReason bounds the text of an error, which may quote a template.
const maxReason = 600

var (
	place    = regexp.MustCompile(`(?:template: |parse error at \(|execution error at \()([^\s:()]+):(\d+)(?::\d+)?\)?: `)
	noFile   = regexp.MustCompile(`^(?:parse error|execution error) in \(([^)]+)\): `)
	executes = regexp.MustCompile(`^executing "[^"]*" at (<.*?>): `)
	calling  = regexp.MustCompile(`^error calling [A-Za-z0-9]+: `)
)

// templateFault turns an error of Helm's engine, which lists the whole call stack of
// templates, into the place of the error and the reason.
func templateFault(app string, err error) error {
	text := strings.TrimSpace(err.Error())
	f := &render.Fault{App: app}
	found := place.FindAllStringSubmatchIndex(text, -1)
	if len(found) == 0 {
		if m := noFile.FindStringSubmatch(text); m != nil {
			f.File, text = m[1], strings.TrimPrefix(text, m[0])
		}
		f.Reason = clip(text)
		return f.Invalid()
	}
	first, last := found[0], found[len(found)-1]
	f.File = text[last[2]:last[3]]
	f.Line, _ = strconv.Atoi(text[last[4]:last[5]])
	f.Reason = clip(reason(text[last[1]:]))
	if outer := text[first[2]:first[3]]; outer != f.File {
		f.Reason += " (included from " + outer + ":" + text[first[4]:first[5]] + ")"
	}
	return f.Invalid()
}

// reason removes the prefix of text/template's errors and keeps the expression that failed.
func reason(text string) string {
	at := ""
	if m := executes.FindStringSubmatch(text); m != nil {
		at, text = m[1], strings.TrimPrefix(text, m[0])
	}
	for calling.MatchString(text) {
		text = calling.ReplaceAllString(text, "")
	}
	if at != "" {
		text += " (at " + at + ")"
	}
	return text
}

func clip(text string) string {
	if len(text) > maxReason {
		return strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}
