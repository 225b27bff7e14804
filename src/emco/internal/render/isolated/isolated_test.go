package isolated_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/isolated"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
)

// TestMain makes the test program the child when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "render-child" {
		if len(os.Args) > 3 {
			noteStart(os.Args[3])
		}
		if err := isolated.Main(stubRenderer(os.Args[2]), os.Stdin, childOutput{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// childOutput is the stdout of a child.
type childOutput struct{}

// Write writes an answer. After that of a chart that lingers, the child computes for longer than a short rendering may.
func (childOutput) Write(p []byte) (int, error) {
	n, err := os.Stdout.Write(p)
	if lingers {
		lingers = false
		compute(400 * time.Millisecond)
	}
	return n, err
}

// lingers is set by a chart that lingers, in its child.
var lingers bool

// compute uses the processor.
func compute(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

// stubRenderer is a renderer that behaves as its name describes.
type stubRenderer string

func (b stubRenderer) Edition() string { return string(b) }

func (b stubRenderer) Render(_ context.Context, req render.Request) (render.Result, error) {
	if b == "byApp" { // as the app's name describes, up to a dash
		name, _, _ := strings.Cut(req.App, "-")
		b = stubRenderer(name)
	}
	switch b {
	case "loops":
		//lint:ignore SA5002 the parent has to end it
		for {
		}
	case "slow":
		compute(400 * time.Millisecond)
	case "lingers":
		lingers = true
	case "waits": // as if others had the processors
		time.Sleep(time.Hour)
	case "grows":
		var all [][]byte
		for {
			//lint:ignore SA4010 it only allocates memory
			all = append(all, bytes.Repeat([]byte("x"), 1<<20))
		}
	case "recurses":
		return render.Result{}, deeper(0)
	case "shouts":
		return render.Result{Findings: []string{strings.Repeat("x", 3<<20)}}, nil
	case "panics":
		panic("on purpose")
	case "babbles":
		fmt.Print("this is no JSON")
	case "remembers":
		kept = bytes.Repeat([]byte("x"), 100<<20)
	case "faults":
		return render.Result{}, (&render.Fault{App: req.App, File: "f.yaml", Line: 3, Reason: "is odd"}).Invalid()
	case "breaks":
		return render.Result{}, errs.New(errs.Unavailable, "the disk is away")
	case "tells":
		content := fmt.Appendf(nil, "%v %v %s %s %v %q", req.Overrides, req.Labels, req.Release, req.Namespace, req.Profile.Open == nil, os.Environ())
		return render.Result{
			Objects:  []manifest.Object{{ID: manifest.ID{Version: "v1", Kind: "K", Name: req.App}, Content: content, Digest: "d", Source: "s"}},
			Hooks:    []render.Hook{{Events: []string{"test"}, Weight: -3}},
			Findings: []string{string(req.Package.Digest)},
		}, nil
	}
	return render.Result{}, nil
}

// kept is what a chart leaves behind in its child.
var kept []byte

func deeper(n int) error {
	var pad [1024]byte
	pad[n%1024] = 1
	//lint:ignore SA5007 the parent has to end it
	if err := deeper(n + 1 + int(pad[5])); err != nil {
		return fmt.Errorf("%d: %w", n, err)
	}
	return nil
}

func child(t *testing.T, how string, change func(*isolated.Limits)) render.Renderer {
	t.Helper()
	l := isolated.Default()
	l.Memory = 256 << 20
	if raced {
		l.Memory = 1 << 40
	}
	if change != nil {
		change(&l)
	}
	return isolated.New(how, []string{os.Args[0], "render-child", how}, l)
}

func request() render.Request {
	return render.Request{
		App: "web", Package: rendertest.Archive([]byte("p")), Release: "r1", Namespace: "shop",
		Overrides: []render.Override{{Key: "a", Value: "b"}}, Labels: []render.Label{{Key: "l", Value: "v"}},
	}
}

func TestTheChildGetsTheRequestAndNothingElse(t *testing.T) {
	t.Setenv("EMCO_TEST_SECRET", "hush")
	res, err := child(t, "tells", nil).Render(t.Context(), request())
	if err != nil || len(res.Objects) != 1 || len(res.Hooks) != 1 || res.Hooks[0].Weight != -3 {
		t.Fatalf("Render = %v, %v", res, err)
	}
	got := string(res.Objects[0].Content)
	if !strings.HasPrefix(got, `[{a b}] [{l v}] r1 shop true ["GOGC=400" "GOMEMLIMIT=`) || strings.Contains(got, "hush") {
		t.Errorf("the child saw %s", got)
	}
	if res.Findings[0] != string(manifest.DigestOf([]byte("p"))) || res.Objects[0].ID.Name != "web" {
		t.Errorf("got %v", res)
	}
}

func TestBadChildrenHarmNoOtherRendering(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		how, want string
		kind      errs.Kind
		change    func(*isolated.Limits)
	}{
		{"loops", "app web: rendering took more than 300ms of processor time", errs.Invalid, func(l *isolated.Limits) { l.Work = 300 * time.Millisecond }},
		{"waits", "app web: rendering was not done after 200ms", errs.Unavailable, func(l *isolated.Limits) { l.Time = 200 * time.Millisecond }},
		{"grows", "app web: rendering needs more than 256 MiB", errs.Invalid, nil},
		{"recurses", "app web: ", errs.Invalid, nil},
		{"shouts", "app web: renders to more than 1048576 bytes", errs.Invalid, func(l *isolated.Limits) { l.Output = 1 << 20 }},
		{"faults", "app web: f.yaml:3: is odd", errs.Invalid, nil},
		{"breaks", "the disk is away", errs.Unavailable, nil},
		{"panics", "panic: on purpose", errs.Internal, nil},
		{"babbles", "no JSON", errs.Internal, nil},
	} {
		t.Run(tt.how, func(t *testing.T) {
			t.Parallel()
			if raced && (tt.how == "grows" || tt.how == "recurses") {
				t.Skip("children are not limited under the race detector")
			}
			res, err := child(t, tt.how, tt.change).Render(t.Context(), request())
			if err == nil || errs.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Render = %v, %v, want %v with %q", res, err, tt.kind, tt.want)
			}
		})
	}
}

func TestACallerThatLeavesEndsTheChild(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := child(t, "loops", nil).Render(ctx, request())
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 5*time.Second {
		t.Errorf("Render = %v after %s", err, time.Since(start))
	}
}

func TestOneAtATimeWaitsWithoutStarting(t *testing.T) {
	t.Parallel()
	r := child(t, "loops", func(l *isolated.Limits) { l.Parallel, l.Time = 1, time.Minute })
	ctx, cancel := context.WithCancel(t.Context())
	opened, done := make(chan struct{}), make(chan error)
	first := request()
	inner := first.Package.Open
	first.Package = render.Archive{Open: func(ctx context.Context) (io.ReadCloser, error) { close(opened); return inner(ctx) }}
	go func() { _, err := r.Render(ctx, first); done <- err }()
	<-opened
	late, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := r.Render(late, request()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second Render = %v, want it to wait", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the first Render = %v", err)
	}
}

func TestInputIsBounded(t *testing.T) {
	t.Parallel()
	_, err := child(t, "tells", func(l *isolated.Limits) { l.Input = 0 }).Render(t.Context(), request())
	if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "package is larger than 0 bytes") {
		t.Errorf("Render = %v", err)
	}
}

func TestACommandThatIsMissingIsNotTheUsersFault(t *testing.T) {
	t.Parallel()
	_, err := isolated.New("none", []string{t.TempDir() + "/none"}, isolated.Default()).Render(t.Context(), request())
	if !errs.Is(err, errs.Internal) {
		t.Errorf("Render = %v", err)
	}
}

func TestMainNeedsARequest(t *testing.T) {
	t.Parallel()
	if err := isolated.Main(stubRenderer("tells"), strings.NewReader("{"), &bytes.Buffer{}); err == nil {
		t.Error("half a request is taken")
	}
}
