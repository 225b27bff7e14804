package outbound

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Prefixes are the URLs below which an operator allows requests for users.
type Prefixes []*url.URL

// ReadPrefixes reads prefixes such as "http://clm.example.org:9061/v2/cluster-providers/". The error is Invalid
// for one that is no URL of a directory.
func ReadPrefixes(texts []string) (Prefixes, error) {
	var out Prefixes
	for _, text := range texts {
		u, err := ReadURL(text)
		if err != nil {
			return nil, errs.New(errs.Invalid, fmt.Sprintf("%q: %s", text, err))
		}
		if !strings.HasSuffix(u.Path, "/") {
			return nil, errs.New(errs.Invalid, fmt.Sprintf("%q must end in /, as all below it is allowed", text))
		}
		out = append(out, u)
	}
	return out, nil
}

// Allow reports whether a URL is below one of the prefixes.
func (p Prefixes) Allow(u *url.URL) bool {
	return slices.ContainsFunc(p, func(a *url.URL) bool {
		return Server(a) == Server(u) && strings.HasPrefix(u.Path, a.Path)
	})
}

// ReadURL reads a URL whose parts cannot be mistaken.
func ReadURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("it is no URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("it must begin with http:// or https:// and a host")
	case u.User != nil:
		return nil, errors.New("it must not have credentials")
	case slices.Contains(strings.Split(u.Path, "/"), ".."), strings.Contains(u.Path, `\`):
		return nil, errors.New("its path must not lead upwards")
	}
	return u, nil
}
