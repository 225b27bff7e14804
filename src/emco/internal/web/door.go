package web

import (
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Door keeps web pages of other sites away from the API. A browser on a machine that reaches
// the API would otherwise carry out the requests of any page.
//
//   - A request must name the API by an address, by localhost or by one of Hosts: a page whose
//     name resolves to the API's address (DNS rebinding) gets 421.
//   - A request that may change something must not come from a page of another origin: 403.
//   - A body must be JSON or multipart: 415. A page may send other types without asking.
type Door struct {
	Hosts    []string // names of the API, in any letter case, without ports
	AnyTypes []string // paths that take any type of body, because they check signatures

	Refused func(r *http.Request, err error) // called for requests from pages of other origins; may be nil
}

// Wrap returns a handler that passes what may enter on to next.
func (d Door) Wrap(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if err := d.checkHost(r.Host); err != nil {
			return err
		}
		if err := origins.Check(r); err != nil {
			err := errs.New(errs.Forbidden, "a web page of another origin sent this request; requests that may change something are taken from the API's own origin and from programs only")
			if d.Refused != nil {
				d.Refused(r, err)
			}
			return err
		}
		if err := d.checkType(r); err != nil {
			return err
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// checkHost refuses names that are not the API's. Addresses pass: no page of another site has
// the API's address as its own.
func (d Door) checkHost(hostport string) error {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return nil
	}
	if slices.ContainsFunc(d.Hosts, func(name string) bool { return strings.EqualFold(name, host) }) {
		return nil
	}
	return WithStatus(http.StatusMisdirectedRequest, errs.New(errs.Forbidden,
		fmt.Sprintf("this API is not called %s; its operator lists its names in http.hosts", strconv.Quote(host))))
}

// checkType refuses bodies that are neither JSON nor multipart.
func (d Door) checkType(r *http.Request) error {
	if r.ContentLength == 0 || slices.Contains(d.AnyTypes, r.URL.Path) {
		return nil
	}
	given := r.Header.Get("Content-Type")
	kind, _, err := mime.ParseMediaType(given)
	if err == nil && (kind == "application/json" || kind == "multipart/form-data" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")) {
		return nil
	}
	return WithStatus(http.StatusUnsupportedMediaType, errs.New(errs.Malformed,
		fmt.Sprintf("Content-Type %s is not supported; send application/json, or multipart/form-data where a file is uploaded", strconv.Quote(given))))
}
