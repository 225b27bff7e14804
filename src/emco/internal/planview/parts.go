package planview

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"sigs.k8s.io/yaml"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

const (
	defaultRows = 50
	maxRows     = 200
	maxDiff     = 256 << 10 // bytes
)

// Clusters answers with a page of the clusters of a class. group returns the group of a request.
func (c *Cache) Clusters(group func(*http.Request) (store.Doc, error)) web.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := web.CheckQuery(r.URL.Query(), "limit", "continue"); err != nil {
			return err
		}
		p, err := web.ReadPage(r.URL.Query())
		if err != nil {
			return err
		}
		if p.Limit == 0 {
			p.Limit = defaultRows
		}
		p.Limit = min(p.Limit, maxRows)
		_, class, err := c.class(r, group)
		if err != nil {
			return err
		}
		out := v2.PlanClusters{Total: len(class.Clusters)}
		out.Items, out.Continue, err = web.Cut(p, class.Clusters, func(on v2.PlanCluster) string { return on.Cluster })
		if err != nil {
			return err
		}
		return web.JSON(w, http.StatusOK, out)
	}
}

// Diff answers with the unified difference of one object of a class, or of all that change. Values of
// Secrets are masked in plans already.
func (c *Cache) Diff(group func(*http.Request) (store.Doc, error)) web.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := web.CheckQuery(r.URL.Query(), "object"); err != nil {
			return err
		}
		app, class, err := c.class(r, group)
		if err != nil {
			return err
		}
		objects := class.Objects
		if id := r.URL.Query().Get("object"); id != "" {
			i, err := strconv.Atoi(id)
			if err != nil || i < 1 || i > len(objects) {
				return errs.New(errs.NotFound, "the class has no object "+strconv.Quote(id))
			}
			objects = objects[i-1 : i]
		}
		var out strings.Builder
		for _, o := range objects {
			text, err := difference(app, o)
			if err != nil {
				return err
			}
			if out.Len()+len(text) > maxDiff {
				out.WriteString("# the rest is left out: ask for single objects\n")
				break
			}
			out.WriteString(text)
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, err = w.Write([]byte(out.String()))
		return err
	}
}

// class returns the class that a request names.
func (c *Cache) class(r *http.Request, group func(*http.Request) (store.Doc, error)) (app string, class v2.PlanClass, err error) {
	doc, err := group(r)
	if err != nil {
		return "", class, err
	}
	vars, err := web.Vars(r)
	if err != nil {
		return "", class, err
	}
	plan, ok := c.find(doc.Key, vars["plan"])
	if !ok {
		return "", class, errs.New(errs.NotFound, "the plan is not kept any longer, or another process has made it: make it again")
	}
	if app, class, ok = classOf(plan, vars["class"]); !ok {
		return "", class, errs.New(errs.NotFound, "the plan has no class "+strconv.Quote(vars["class"]))
	}
	return app, class, nil
}

// difference returns the unified difference of an object; empty if it stays as it is.
func difference(app string, o v2.ObjectChange) (string, error) {
	before, err := yamlOf(o.Before)
	if err != nil {
		return "", err
	}
	after, err := yamlOf(o.After)
	if err != nil {
		return "", err
	}
	path := strings.Join([]string{app, o.GVK.Kind, o.Namespace, o.Name}, "/")
	text := string(diff.Diff(path+" (now)", before, path+" (planned)", after))
	_, text, _ = strings.Cut(text, "\n") // the line "diff BEFORE AFTER"
	return text, nil
}

func yamlOf(text json.RawMessage) ([]byte, error) {
	if len(text) == 0 {
		return nil, nil
	}
	return yaml.JSONToYAML(text)
}
