package rendertest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
)

// plainRenderer is a sound renderer: its packages are manifests, packed by nothing.
type plainRenderer struct{}

func (plainRenderer) Edition() string { return "plain" }

func (plainRenderer) Render(ctx context.Context, req render.Request) (render.Result, error) {
	if req.Release != strings.ToLower(req.Release) {
		return render.Result{}, (&render.Fault{App: req.App, Reason: "release name is no DNS label"}).Invalid()
	}
	if err := ctx.Err(); err != nil {
		return render.Result{}, err
	}
	in, err := req.Package.Open(ctx)
	if err != nil {
		return render.Result{}, err
	}
	text, err := io.ReadAll(in)
	if err := errors.Join(err, in.Close()); err != nil {
		return render.Result{}, err
	}
	objects, err := manifest.Parse("all.yaml", text)
	if err != nil {
		return render.Result{}, (&render.Fault{App: req.App, Reason: err.Error()}).Invalid()
	}
	labels := map[string]string{}
	for _, l := range req.Labels {
		labels[l.Key] = l.Value
	}
	objects, err = manifest.Complete(objects, manifest.Defaults{Namespace: req.Namespace, Labels: labels})
	manifest.Sort(objects)
	return render.Result{Objects: objects, Findings: []string{"a", "b"}}, err
}

func request() render.Request {
	text := "apiVersion: v1\nkind: Service\nmetadata: {name: b}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	return render.Request{
		App: "app", Package: rendertest.Archive([]byte(text)), Release: "r1", Namespace: "shop",
		Labels: []render.Label{{Key: "l", Value: "v"}},
	}
}

func TestASoundRendererPasses(t *testing.T) {
	t.Parallel()
	if err := rendertest.Check(t.Context(), plainRenderer{}, request()); err != nil {
		t.Error(err)
	}
}

// brokenRenderer is a renderer that breaks one rule.
type brokenRenderer func(context.Context, render.Request) (render.Result, error)

func (brokenRenderer) Edition() string { return "spoiled" }

func (s brokenRenderer) Render(ctx context.Context, req render.Request) (render.Result, error) {
	return s(ctx, req)
}

// after spoils what the sound renderer gives.
func after(spoil func(*render.Result)) render.Renderer {
	return brokenRenderer(func(ctx context.Context, req render.Request) (render.Result, error) {
		res, err := plainRenderer{}.Render(ctx, req)
		if err == nil {
			spoil(&res)
		}
		return res, err
	})
}

// before spoils what the sound renderer is asked.
func before(spoil func(context.Context, *render.Request) context.Context) render.Renderer {
	return brokenRenderer(func(ctx context.Context, req render.Request) (render.Result, error) {
		ctx = spoil(ctx, &req)
		return plainRenderer{}.Render(ctx, req)
	})
}

// leaky hands out a reader whose Close closes nothing.
func leaky(ctx context.Context, req *render.Request) context.Context {
	open := req.Package.Open
	req.Package.Open = func(ctx context.Context) (io.ReadCloser, error) {
		in, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return io.NopCloser(in), nil
	}
	return ctx
}

func TestBrokenRenderersAreCaught(t *testing.T) {
	t.Parallel()
	times := 0
	for _, tt := range []struct {
		name string
		r    render.Renderer
		want string
	}{
		{"one that counts", after(func(r *render.Result) { times++; r.Findings = []string{fmt.Sprint(times)} }), "equal requests"},
		{"one that renders nothing", after(func(r *render.Result) { r.Objects = nil }), "nothing was rendered"},
		{"one that forgets the order", after(func(r *render.Result) { slices.Reverse(r.Objects) }), "is not sorted"},
		{"one that forgets the order of findings", after(func(r *render.Result) { slices.Reverse(r.Findings) }), "is not sorted"},
		{"one that gives a digest of something else", after(func(r *render.Result) { r.Objects[0].Digest = "d" }), "digest"},
		{"one that forgets where objects came from", after(func(r *render.Result) { r.Objects[0].Source = "" }), "has no source"},
		{"one that adds blanks", after(func(r *render.Result) { r.Objects[0].Content = append(r.Objects[0].Content, ' ') }), "canonical"},
		{"one that gives an object twice", after(func(r *render.Result) { r.Objects = slices.Insert(r.Objects, 0, r.Objects[0]) }), "already"},
		{"one that forgets labels", before(func(ctx context.Context, r *render.Request) context.Context { r.Labels = nil; return ctx }), "lacks label"},
		{"one that forgets the namespace", before(func(ctx context.Context, r *render.Request) context.Context { r.Namespace = ""; return ctx }), "namespace"},
		{"one that leaves archives open", before(leaky), "an archive is closed"},
		{"one that forgets the app", before(func(ctx context.Context, r *render.Request) context.Context { r.App = "x"; return ctx }), "user's fault"},
		{"one that renders on", before(func(ctx context.Context, _ *render.Request) context.Context { return context.WithoutCancel(ctx) }), "has ended"},
		{"one that takes any release name", before(func(ctx context.Context, r *render.Request) context.Context { r.Release = "r"; return ctx }), "release name"},
		{"one that hides why an archive cannot be had", brokenRenderer(func(ctx context.Context, req render.Request) (render.Result, error) {
			res, err := plainRenderer{}.Render(ctx, req)
			if err != nil && !errors.As(err, new(*render.Fault)) && ctx.Err() == nil {
				err = errors.New("something is wrong")
			}
			return res, err
		}), "keeps its kind"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if err := rendertest.Check(t.Context(), tt.r, request()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Check = %v, want %q", err, tt.want)
			}
		})
	}
}
