// Package identity serves roles, bindings, API tokens and sign-ins of browsers, and the questions who a caller is,
// what it may do, and who may do something. It owns these documents and reads projects and cluster providers, which are the parents of bindings.
//
// identity.go has the routes, roles and bindings; tokens.go has API tokens, sessions.go sign-ins of browsers,
// backchannel.go sign-outs that issuers report, and questions.go the questions.
package identity

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/access/grants"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Resources are what the service serves.
type Resources struct {
	DB      *store.DB
	Grants  *grants.Cache
	Issuers []v2.SignIn
	Now     func() time.Time

	// Objects returns why the caller may not carry out an action of a group now, though its roles allow it: Forbidden or Conflict.
	// nil: nothing but roles decides.
	Objects func(ctx context.Context, group v2.GroupKey, action string) error

	Sessions *Sessions // of browsers; nil: none
}

// maxBody bounds the body of a question and of a token, in bytes.
const maxBody = 16 << 10

// givesMore says when escalation answers Forbidden.
const givesMore = "it gives more than the caller has"

// Mount adds the routes.
func (s Resources) Mount(r *mux.Router) {
	resource.Mount(r, s.DB, resource.Def[v2.Role]{
		Kind: "Role", Collection: grants.Roles, Item: "{role}", Put: resource.PutUpsert, Check: s.checkRole, Forbids: givesMore,
	})
	s.bindings(r, grants.Bindings, "")
	s.bindings(r, "projects/{project}/"+grants.Bindings, "Project not found")
	s.bindings(r, "cluster-providers/{clusterProvider}/"+grants.Bindings, "Cluster provider not found")

	token := func(verb string) authz.Permission { return authz.Permission{Verb: verb, Type: grants.Tokens} }
	web.Handle(r, http.MethodPost, "/v2/tokens", token(authz.Create), web.WithDryRun(s.makeToken))
	web.Handle(r, http.MethodGet, "/v2/tokens", token(authz.List), s.listTokens)
	web.Handle(r, http.MethodDelete, "/v2/tokens/{token}", token(authz.Delete), web.WithDryRun(s.revokeToken))

	s.Sessions.mount(r)

	signedIn := authz.Permission{Verb: authz.SignedIn, Type: "auth"}
	web.Handle(r, http.MethodGet, "/v2/auth/issuers", authz.Permission{Verb: authz.Public, Type: "auth"}, s.issuers)
	web.Handle(r, http.MethodGet, "/v2/auth/whoami", signedIn, s.whoami)
	web.HandleReading(r, http.MethodPost, "/v2/auth/can-i", signedIn, web.WithDryRun(permissionQuestions{r, s.Objects}.canI))
	web.HandleReading(r, http.MethodPost, "/v2/auth/who-can", signedIn, web.WithDryRun(permissionQuestions{r, s.Objects}.whoCan))
}

func (s Resources) bindings(r *mux.Router, collection, orphan string) {
	resource.Mount(r, s.DB, resource.Def[v2.RoleBinding]{
		Kind: "RoleBinding", Orphan: orphan, Collection: collection, Item: "{roleBinding}", Put: resource.PutUpsert,
		Needs: func(_ resource.Place, b v2.RoleBinding) []store.Key {
			if _, built := authz.BuiltIn()[b.Spec.Role]; built {
				return nil
			}
			return []store.Key{store.Key(grants.Roles + "/" + b.Spec.Role)}
		},
		Settle: s.refuseEnded,
		Check:  s.checkBinding, Forbids: givesMore,
		Guards: resource.Guards{Replace: s.beforeEnd, Delete: s.beforeEnd},
	})
}

// checkRole refuses the names of roles that are built in, and rules that the caller does not have everywhere:
// the role may be bound anywhere.
func (s Resources) checkRole(ctx context.Context, at resource.Place, r v2.Role) error {
	name := r.Metadata.Name
	if _, built := authz.BuiltIn()[name]; built {
		return errs.New(errs.Invalid, "the role "+name+" is built in; choose another name")
	}
	return escalation(authz.From(ctx).Missing(grants.Rules(r), ""), "everywhere")
}

// refuseEnded refuses a new binding that would never hold. Stored ones may end, and a PUT may end them.
func (s Resources) refuseEnded(_ context.Context, _ resource.Place, b *v2.RoleBinding) error {
	if ends := b.Ends(); !ends.IsZero() && !ends.After(s.Now()) {
		return errs.New(errs.Invalid, "Invalid Input:\n- spec.expires: "+b.Spec.Expires+" is in the past, so the binding would never hold; choose a later time, or leave it out for a binding without an end")
	}
	return nil
}

// checkBinding refuses to give what the caller does not have at the place.
func (s Resources) checkBinding(ctx context.Context, at resource.Place, b v2.RoleBinding) error {
	if at.Parent != "" && slices.Contains([]string{authz.PlatformAdmin, authz.Auditor}, b.Spec.Role) {
		return errs.New(errs.Invalid, "the role "+b.Spec.Role+" is for the whole platform; bind it below /v2/role-bindings")
	}
	return s.mayGive(ctx, b.Spec.Role, string(at.Parent))
}

// beforeEnd is asked before a binding changes or goes. An administrator that was there ends the bootstrap token,
// also when no process has seen the binding yet.
func (s Resources) beforeEnd(ctx context.Context, doc store.Doc) error {
	b, err := store.Decode[v2.RoleBinding](doc)
	if err == nil {
		err = s.checkEnd(ctx, doc, b)
	}
	if err != nil || resource.DryRun(ctx) {
		return err
	}
	ends := b.Ends()
	if doc.Parent == "" && b.Spec.Role == authz.PlatformAdmin && !b.Spec.Deny && (ends.IsZero() || s.Now().Before(ends)) {
		return s.Grants.EndBootstrap(ctx)
	}
	return nil
}

// checkEnd refuses to end a denial of what the caller does not have itself: no caller ends its own denial. In a
// project or a provider, those who may end denials everywhere may end it, whomever it names.
func (s Resources) checkEnd(ctx context.Context, doc store.Doc, b v2.RoleBinding) error {
	if !b.Spec.Deny {
		return nil
	}
	if doc.Parent != "" && authz.From(ctx).May(authz.Delete, grants.Bindings, "") {
		return nil
	}
	return s.mayGive(ctx, b.Spec.Role, string(doc.Parent))
}

func (s Resources) mayGive(ctx context.Context, role, place string) error {
	rules, err := s.Grants.Role(ctx, role)
	if errs.Is(err, errs.Invalid) && authz.From(ctx) == nil {
		return nil // the reference is checked when the document is written
	}
	if err != nil {
		return err
	}
	return escalation(authz.From(ctx).Missing(rules, place), place)
}

func escalation(missing, place string) error {
	if missing == "" {
		return nil
	}
	if place == "" {
		place = "everywhere"
	}
	return errs.New(errs.Forbidden, "callers cannot give more than they have: you may not "+missing+" in "+place)
}

// issuers answers where people sign in.
func (s Resources) issuers(w http.ResponseWriter, r *http.Request) error {
	if err := web.CheckQuery(r.URL.Query()); err != nil {
		return err
	}
	return web.JSON(w, http.StatusOK, append([]v2.SignIn{}, s.Issuers...))
}

// whoami answers who the caller is.
func (s Resources) whoami(w http.ResponseWriter, r *http.Request) error {
	if err := web.CheckQuery(r.URL.Query()); err != nil {
		return err
	}
	c := authn.From(r.Context())
	if authz.From(r.Context()) == nil {
		return web.JSON(w, http.StatusOK, v2.WhoAmI{Subject: web.Actor(r.Context()), Via: "off"})
	}
	return web.JSON(w, http.StatusOK, v2.WhoAmI{Subject: c.Subject, UID: c.UID, Groups: c.Groups, Via: c.Via, Until: c.Until})
}
