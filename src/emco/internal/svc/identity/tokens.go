package identity

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/access/grants"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/apitoken"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// makeToken makes an API token. The answer is the only place that shows it.
func (s Resources) makeToken(w http.ResponseWriter, r *http.Request, dry bool) error {
	if err := web.CheckQuery(r.URL.Query(), "dryRun"); err != nil {
		return err
	}
	text, err := web.Body(w, r, maxBody)
	if err != nil {
		return err
	}
	t, err := v2.Decode[v2.APIToken](text, v2.Lenient)
	if err == nil {
		err = t.Validate()
	}
	if err == nil {
		err = s.checkToken(r.Context(), t)
	}
	if err != nil {
		return err
	}
	t.UID, t.Made, t.Actor = "", s.Now().UTC().Truncate(time.Second), web.Actor(r.Context())
	out := v2.NewAPIToken{APIToken: t}
	key := store.Key(grants.Tokens + "/" + t.Metadata.Name)
	if dry {
		if _, err := s.DB.Get(r.Context(), key); err == nil {
			return errs.New(errs.Exists, "Token already exists")
		}
		return web.JSON(w, http.StatusCreated, out)
	}
	out.Token = apitoken.New()
	body, err := json.Marshal(grants.TokenRecord{APIToken: t, Digest: apitoken.Digest(out.Token)})
	if err != nil {
		return err
	}
	var refs []store.Ref
	if _, built := authz.BuiltIn()[t.Spec.Role]; !built {
		refs = append(refs, store.Ref{Key: store.Key(grants.Roles + "/" + t.Spec.Role), Must: true})
	}
	if t.Spec.Place != "" { // another place of the same name must not inherit the token
		refs = append(refs, store.Ref{Key: store.Key(t.Spec.Place), Must: true})
	}
	doc, err := s.DB.Create(r.Context(), store.Write{Key: key, Body: body, Refs: refs})
	if errs.Is(err, errs.Exists) {
		err = errs.New(errs.Exists, "Token already exists")
	}
	if err != nil {
		return err
	}
	out.UID = doc.UID
	return web.JSON(w, http.StatusCreated, out)
}

// checkToken refuses a token that lives too long, or may do more than its maker.
func (s Resources) checkToken(ctx context.Context, t v2.APIToken) error {
	now := s.Now()
	switch end := t.Ends(); {
	case !end.After(now):
		return errs.New(errs.Invalid, "Invalid Input:\n- spec.expires: it is in the past")
	case end.Sub(now) > v2.MaxTokenLife:
		return errs.New(errs.Invalid, "Invalid Input:\n- spec.expires: a token lives at most a year")
	}
	rules, err := s.Grants.Role(ctx, t.Spec.Role)
	if err == nil {
		err = escalation(authz.From(ctx).Missing(rules, t.Spec.Place), t.Spec.Place)
	}
	if err == nil { // bindings name tokens that are made later, and those that were revoked
		subject := grants.TokenSubject(t.Metadata.Name)
		if binding, missing := authz.From(ctx).MissingOf(subject); missing != "" {
			err = errs.New(errs.Forbidden, binding+" gives "+subject+" what you do not have: you may not "+missing+"; choose another name")
		}
	}
	if err != nil || t.Spec.Place == "" {
		return err
	}
	if _, err := s.DB.Get(ctx, store.Key(t.Spec.Place)); errs.Is(err, errs.NotFound) {
		return errs.New(errs.Invalid, "Invalid Input:\n- spec.place: there is no "+t.Spec.Place)
	}
	return nil
}

// listTokens answers with all tokens, without what is secret of them.
func (s Resources) listTokens(w http.ResponseWriter, r *http.Request) error {
	if err := web.CheckQuery(r.URL.Query()); err != nil {
		return err
	}
	out := []v2.APIToken{}
	for t, err := range store.All[grants.TokenRecord](r.Context(), s.DB, grants.Tokens, store.Query{Depth: 1}) {
		if err != nil {
			return err
		}
		one := t.Value.APIToken
		one.UID = t.Doc.UID
		out = append(out, one)
	}
	return web.JSON(w, http.StatusOK, out)
}

// revokeToken ends a token.
func (s Resources) revokeToken(w http.ResponseWriter, r *http.Request, dry bool) error {
	if err := web.CheckQuery(r.URL.Query(), "dryRun"); err != nil {
		return err
	}
	vars, err := web.Vars(r)
	if err != nil {
		return err
	}
	key := store.Key(grants.Tokens + "/" + vars["token"])
	if dry {
		_, err = s.DB.Get(r.Context(), key)
	} else {
		err = s.DB.Delete(r.Context(), key, nil)
	}
	if errs.Is(err, errs.NotFound) {
		err = errs.New(errs.NotFound, "Token not found")
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
