package views

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/nearest"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

const (
	maxListed = 10 // apps that an error lists
	maxName   = 64 // bytes of a name that may be a misspelt one
)

// checkApps refuses names of apps that no composite app has which the caller may see, and that run on no cluster.
func (v *Views) checkApps(ctx context.Context, apps []string) error {
	if len(apps) == 0 {
		return nil
	}
	known, err := v.appNames(ctx, func(v2.CompositeAppKey) bool { return true })
	if err != nil {
		return err
	}
	all := sightOf(ctx).path("")
	for _, app := range apps {
		if !slices.Contains(known, app) && !(all && v.Tally.HasApp(app)) {
			return unknownApp(app, "", known)
		}
	}
	return nil
}

// checkGroupApps refuses names of apps that neither the composite app of a group has, nor the group itself.
func (v *Views) checkGroupApps(ctx context.Context, apps []string, group string, has []string) error {
	k, ok := v2.GroupOf(group)
	if len(apps) == 0 || !ok {
		return nil
	}
	known, err := v.appNames(ctx, func(app v2.CompositeAppKey) bool { return app == k.CompositeApp })
	if err != nil {
		return err
	}
	known = append(known, has...)
	for _, app := range apps {
		if !slices.Contains(known, app) {
			return unknownApp(app, " in "+v2.ShortName(group), known)
		}
	}
	return nil
}

// appNames returns the names of the apps of some composite apps, of those that the caller may see.
func (v *Views) appNames(ctx context.Context, of func(v2.CompositeAppKey) bool) (names []string, err error) {
	_, keys, err := v.registry.all(ctx)
	if err != nil {
		return nil, err
	}
	sees := sightOf(ctx)
	for _, key := range keys {
		if k, ok := v2.AppOf(key); ok && of(k.CompositeApp) && sees.path(key) {
			names = append(names, k.Name)
		}
	}
	return names, nil
}

// unknownApp names an app that does not exist, and the one that was probably meant, or some that exist.
func unknownApp(app, where string, known []string) error {
	slices.Sort(known)
	known = slices.Compact(known)
	if len(app) > maxName {
		return errs.New(errs.Invalid, "Invalid query app: there is no app "+strconv.Quote(app[:maxName])+"…"+where)
	}
	text := "Invalid query app: there is no app " + strconv.Quote(app) + where
	near, found := nearest.To(app, known)
	switch more := len(known) - maxListed; {
	case found:
		text += "; did you mean " + near + "?"
	case len(known) > 0:
		text += "; there are " + strings.Join(known[:min(len(known), maxListed)], ", ")
		if more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	return errs.New(errs.Invalid, text)
}
