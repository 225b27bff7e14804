package web

import (
	"encoding/base64"
	"net/url"
	"strconv"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// maxPage bounds a page, which is held in memory.
const maxPage = 1000

// Page is the part of a list that a request asks for.
type Page struct {
	Limit int    // 0: everything
	After string // the name of the last item of the page before; empty for the first page
}

// ReadPage reads the parameters limit and continue. A larger limit than the largest is that.
func ReadPage(values url.Values) (p Page, err error) {
	if text := values.Get("limit"); text != "" {
		if p.Limit, err = strconv.Atoi(text); err != nil || p.Limit < 1 {
			return p, errs.New(errs.Invalid, "limit is not a positive number")
		}
		p.Limit = min(p.Limit, maxPage)
	}
	if text := values.Get("continue"); text != "" {
		name, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			return p, errs.New(errs.Invalid, "continue is not a token of a page before")
		}
		p.After = string(name)
	}
	return p, nil
}

// Token returns the token of the page after the item with a name.
func Token(last string) string { return base64.RawURLEncoding.EncodeToString([]byte(last)) }

// Cut returns the items of a page of a list that is in order, and the token of the next page.
// name identifies an item. The error is Invalid if the last item of the page before is gone.
func Cut[T any](p Page, items []T, name func(T) string) (page []T, next string, err error) {
	if p.After != "" {
		found := false
		for i, item := range items {
			if name(item) == p.After {
				items, found = items[i+1:], true
				break
			}
		}
		if !found {
			return nil, "", errs.New(errs.Invalid, "continue is the token of a page whose last item is gone; begin with the first page")
		}
	}
	if p.Limit == 0 || len(items) <= p.Limit {
		return items, "", nil
	}
	items = items[:p.Limit]
	return items, Token(name(items[p.Limit-1])), nil
}
