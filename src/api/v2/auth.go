package v2

import (
	"strings"
	"time"
)

// MaxTokenLife is the longest life of an API token.
const MaxTokenLife = 366 * 24 * time.Hour

// APIToken is a credential of a program. It has a role at a place by itself; bindings may give it more.
type APIToken struct {
	Metadata Metadata     `json:"metadata"`
	UID      string       `json:"uid,omitempty"` // by the server: a later token of the same name has another
	Spec     APITokenSpec `json:"spec"`
	Made     time.Time    `json:"made,omitzero"`   // by the server
	Actor    string       `json:"actor,omitempty"` // who made it
}

// APITokenSpec is the body of a token.
type APITokenSpec struct {
	Role    string `json:"role"`            // one that is built in, or a role of /v2/roles
	Place   string `json:"place,omitempty"` // "projects/NAME" or "cluster-providers/NAME"; empty: everywhere
	Expires string `json:"expires"`         // such as "2027-01-01T00:00:00Z", at most a year from now
}

// Validate checks a token that is wanted.
func (t *APIToken) Validate() error {
	var c violationList
	t.Metadata.check(&c)
	c.name("spec.role", t.Spec.Role)
	if collection, name, _ := strings.Cut(t.Spec.Place, "/"); t.Spec.Place != "" && (collection != "projects" && collection != "cluster-providers" || !ValidName(name)) {
		c.fail("spec.place", "%s is neither projects/NAME nor cluster-providers/NAME", quote(t.Spec.Place))
	}
	if _, err := time.Parse(time.RFC3339, t.Spec.Expires); err != nil {
		c.fail("spec.expires", "%s is not a time such as 2027-01-01T00:00:00Z", quote(t.Spec.Expires))
	}
	return c.err()
}

// Ends returns when the token ends.
func (t *APIToken) Ends() time.Time {
	at, err := time.Parse(time.RFC3339, t.Spec.Expires)
	if err != nil {
		return time.Time{}
	}
	return at
}

// NewAPIToken is a token that was made, as POST /v2/tokens returns it. It is not shown again.
type NewAPIToken struct {
	APIToken
	Token string `json:"token"`
}

// WhoAmI is who the server takes a caller for, as GET /v2/auth/whoami returns it.
type WhoAmI struct {
	Subject string    `json:"subject"`
	UID     string    `json:"uid,omitempty"` // of an API token: others of the same name, before and after it, have others
	Groups  []string  `json:"groups,omitempty"`
	Via     string    `json:"via"`            // "token", "oidc", "session", "certificate", "proxy", "bootstrap", or "off" without authentication
	Until   time.Time `json:"until,omitzero"` // when the credential ends
}

// Access is a question about a permission: what a request needs, by its method and path, or by verb, type
// and place.
type Access struct {
	Method string `json:"method,omitempty"` // with Path: GET, POST, PUT or DELETE
	Path   string `json:"path,omitempty"`   // such as /v2/projects/shop
	Verb   string `json:"verb,omitempty"`   // without Path
	Type   string `json:"type,omitempty"`
	Place  string `json:"place,omitempty"` // "" for everywhere
}

// AccessAnswer is the answer of POST /v2/auth/can-i.
type AccessAnswer struct {
	Allowed bool   `json:"allowed"`
	Because string `json:"because"`
	Verb    string `json:"verb"`
	Type    string `json:"type"`
	Place   string `json:"place,omitempty"`
}

// Everyone is the subject of a holder where requests are not authenticated. Other subjects have a colon.
const Everyone = "everyone"

// Holder may do what was asked for, as POST /v2/auth/who-can lists it.
type Holder struct {
	Subject string `json:"subject"` // or Everyone
	Role    string `json:"role"`
	Binding string `json:"binding"` // path of the binding, or of the token
}

// Holders is the answer of POST /v2/auth/who-can.
type Holders struct {
	Verb  string   `json:"verb"`
	Type  string   `json:"type"`
	Place string   `json:"place,omitempty"`
	Items []Holder `json:"items"`
}

// SignIn is where people sign in, as GET /v2/auth/issuers lists it.
type SignIn struct {
	Name     string `json:"name"`
	URL      string `json:"url"`
	Audience string `json:"audience"`
	Client   string `json:"client,omitempty"` // of emcoctl; empty: it cannot sign in there
}

// SignOut is where a browser that has signed out of EMCO also signs out at its issuer, as POST /v2/auth/logout?provider=true returns it.
type SignOut struct {
	Page string `json:"page"` // the browser goes there
}
