// Package rendertest has what tests need of renderers: Check, the contract that each must pass; charts in archives;
// and Plain, a renderer without Helm.
package rendertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// Check reports the first rule that r breaks. The request must render to at least one
// namespaced object, use no random values, name a namespace and have a label.
func Check(ctx context.Context, r render.Renderer, req render.Request) error {
	for _, rule := range []struct {
		name  string
		check func(context.Context, render.Renderer, render.Request) error
	}{
		{"equal requests render equal results", repeats},
		{"objects are canonical, complete and in order", sound},
		{"an archive is closed", closes},
		{"an archive that is none is the user's fault", rejects},
		{"an archive that cannot be had keeps its kind", keepsKind},
		{"a request that has ended is not rendered", obeys},
		{"a release name that is no DNS label is the user's fault", names},
	} {
		if err := rule.check(ctx, r, req); err != nil {
			return fmt.Errorf("%s: %w", rule.name, err)
		}
	}
	return nil
}

func repeats(ctx context.Context, r render.Renderer, req render.Request) error {
	first, err := r.Render(ctx, req)
	if err != nil {
		return err
	}
	second, err := r.Render(ctx, req)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(first, second) {
		return fmt.Errorf("got %v, then %v", first, second)
	}
	return nil
}

func sound(ctx context.Context, r render.Renderer, req render.Request) error {
	res, err := r.Render(ctx, req)
	if err != nil {
		return err
	}
	if len(res.Objects) == 0 {
		return errors.New("nothing was rendered")
	}
	namespaced := false
	all := slices.Concat(res.CRDs, res.Objects)
	for _, h := range res.Hooks {
		all = append(all, h.Object)
	}
	for _, o := range all {
		if err := soundObject(o, req); err != nil {
			return fmt.Errorf("%s: %w", o.ID, err)
		}
		namespaced = namespaced || o.ID.Namespace == req.Namespace
	}
	if !namespaced {
		return errors.New("no object got the namespace")
	}
	inOrder := func(a, b manifest.Object) int { return manifest.Compare(a.ID, b.ID) }
	if !slices.IsSortedFunc(res.Objects, inOrder) || !slices.IsSortedFunc(res.CRDs, inOrder) || !slices.IsSorted(res.Findings) {
		return errors.New("the result is not sorted")
	}
	return manifest.Unique(slices.Concat(res.CRDs, res.Objects))
}

func soundObject(o manifest.Object, req render.Request) error {
	again, err := manifest.Parse(o.Source, o.Content)
	switch {
	case err != nil:
		return err
	case len(again) != 1 || again[0].ID != o.ID || !bytes.Equal(again[0].Content, o.Content):
		return errors.New("is not in canonical form")
	case o.Digest != manifest.DigestOf(o.Content):
		return errors.New("has a digest that is not its content's")
	case o.Source == "":
		return errors.New("has no source")
	}
	var head struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(o.Content, &head); err != nil {
		return err
	}
	for _, l := range req.Labels {
		if head.Metadata.Labels[l.Key] != l.Value {
			return fmt.Errorf("lacks label %s", l.Key)
		}
	}
	return nil
}

// countingCloser counts that what is opened is closed.
type countingCloser struct {
	io.ReadCloser
	open *int
}

func (c countingCloser) Close() error {
	*c.open--
	return c.ReadCloser.Close()
}

func closes(ctx context.Context, r render.Renderer, req render.Request) error {
	open, inner := 0, req.Package.Open
	req.Package.Open = func(ctx context.Context) (io.ReadCloser, error) {
		in, err := inner(ctx)
		open++
		return countingCloser{in, &open}, err
	}
	_, err := r.Render(ctx, req)
	if err == nil && open != 0 {
		err = fmt.Errorf("%d are open", open)
	}
	return err
}

func rejects(ctx context.Context, r render.Renderer, req render.Request) error {
	req.Package = Archive([]byte("no archive"))
	_, err := r.Render(ctx, req)
	return isFault(err, req.App)
}

func keepsKind(ctx context.Context, r render.Renderer, req render.Request) error {
	cause := errs.New(errs.Unavailable, "the store is away")
	req.Package.Open = func(context.Context) (io.ReadCloser, error) { return nil, cause }
	_, err := r.Render(ctx, req)
	if !errors.Is(err, cause) || !errs.Is(err, errs.Unavailable) {
		return fmt.Errorf("got %v", err)
	}
	return nil
}

func obeys(ctx context.Context, r render.Renderer, req render.Request) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := r.Render(ctx, req); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("got %v", err)
	}
	return nil
}

func names(ctx context.Context, r render.Renderer, req render.Request) error {
	req.Release = "V1.0_beta"
	_, err := r.Render(ctx, req)
	return isFault(err, req.App)
}

// isFault checks that an error names the app and the reason.
func isFault(err error, app string) error {
	f, ok := errors.AsType[*render.Fault](err)
	if !ok || !errs.Is(err, errs.Invalid) || f.App != app || !strings.Contains(err.Error(), app) {
		return fmt.Errorf("got %v, want an Invalid error with a Fault of app %s", err, app)
	}
	return nil
}
