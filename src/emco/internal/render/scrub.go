package render

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Scrubbed returns a renderer whose errors and findings do not contain override values: charts
// may quote them, and the texts go to status, events, logs and plans.
func Scrubbed(r Renderer) Renderer { return scrubbingRenderer{r} }

type scrubbingRenderer struct{ Renderer }

// Render renders, and scrubs errors and findings.
func (s scrubbingRenderer) Render(ctx context.Context, req Request) (Result, error) {
	res, err := s.Renderer.Render(ctx, req)
	scrub := Scrubber(req)
	for i, f := range res.Findings {
		res.Findings[i] = scrub.Replace(f)
	}
	if err == nil || scrub.Replace(err.Error()) == err.Error() {
		return res, err
	}
	if f, ok := errors.AsType[*Fault](err); ok {
		clean := *f
		clean.File, clean.Reason = scrub.Replace(f.File), scrub.Replace(f.Reason)
		return res, clean.Invalid()
	}
	return res, errs.New(errs.KindOf(err), scrub.Replace(err.Error()))
}

// leastScrubbed is the shortest length of a value that is scrubbed: shorter ones occur in any text.
const leastScrubbed = 4

// Scrubber returns a replacer that hides the override values of a request in texts: as given,
// their parts in Helm's syntax, quoted, and in base64. It leaves values shorter than four
// characters and truth values, because they reveal nothing and occur everywhere.
func Scrubber(req Request) *strings.Replacer {
	var secrets []string
	add := func(value string) {
		if len(value) < leastScrubbed || slices.Contains([]string{"true", "false", "null"}, value) {
			return
		}
		quoted := strconv.Quote(value)
		secrets = append(secrets, value, quoted[1:len(quoted)-1], fmt.Sprintf("%x", value),
			base64.StdEncoding.EncodeToString([]byte(value)), base64.RawStdEncoding.EncodeToString([]byte(value)))
	}
	for _, o := range req.Overrides {
		add(o.Value)
		add(strings.ReplaceAll(o.Value, `\`, ""))
		const comma = "\x00" // one that is part of a value
		for _, part := range strings.FieldsFunc(strings.ReplaceAll(o.Value, `\,`, comma), func(r rune) bool { return strings.ContainsRune("{},=\n", r) }) {
			add(strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(part), comma, ","), `\`, ""))
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	pairs := make([]string, 0, 2*len(secrets))
	for _, s := range slices.Compact(secrets) {
		pairs = append(pairs, s, "***")
	}
	return strings.NewReplacer(pairs...)
}
