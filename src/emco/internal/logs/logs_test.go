package logs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"

	"github.com/emco-orchestrator/emco/src/emco/internal/logs"
)

// line is the common part of all lines.
type line struct {
	Time           time.Time
	Level, Msg     string
	Component      string
	Deployment     string
	DeploymentName string
	Took, Err      string
}

func lines(t *testing.T, text string) (out []line) {
	t.Helper()
	for l := range strings.Lines(text) {
		var got line
		if err := json.Unmarshal([]byte(l), &got); err != nil || got.Time.IsZero() || got.Level == "" || got.Msg == "" {
			t.Errorf("%s: %v", l, err)
		}
		got.Time = time.Time{}
		out = append(out, got)
	}
	return out
}

// What libraries log has the members of our own lines.
func TestF54LibrariesLogInTheSameSchema(t *testing.T) {
	var out bytes.Buffer
	usual := slog.Default()
	logs.CaptureLibraries(logs.New(&out, logs.Options{}))
	klog.ErrorS(errors.New("refused"), "watch failed", "took", 1500*time.Millisecond)
	klog.Warning("careful")
	grpclog.Error("transport closed")
	log.Print("text of the standard logger")
	slog.SetDefault(usual)
	log.SetOutput(os.Stderr)
	klog.ClearLogger()

	want := []line{
		{Level: "ERROR", Msg: "watch failed", Component: "kubernetes", Took: "1.5s", Err: "refused"},
		{Level: "INFO", Msg: "careful", Component: "kubernetes"},
		{Level: "ERROR", Msg: "transport closed", Component: "grpc"},
		{Level: "INFO", Msg: "text of the standard logger", Component: "library"},
	}
	got := lines(t, out.String())
	if len(got) != len(want) {
		t.Fatalf("got %s", out.String())
	}
	for i, w := range want {
		if got[i] != w {
			t.Errorf("got  %+v\nwant %+v", got[i], w)
		}
	}
}

func TestF54LinesOfEtcd(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	z := logs.Zap(logs.New(&out, logs.Options{}), "etcd", zapcore.WarnLevel)
	z.Info("too low")
	z.Warn("retrying", zap.Duration("took", 2*time.Second))
	z.Error("failed to update storage version", zap.Error(errors.New("cannot detect storage schema version: missing term information")))
	z.Error("failed to update storage version", zap.Error(errors.New("the disk is full")))
	want := []line{
		{Level: "WARN", Msg: "retrying", Component: "etcd", Took: "2s"},
		{Level: "ERROR", Msg: "failed to update storage version", Component: "etcd", Err: "the disk is full"},
	}
	got := lines(t, out.String())
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// A line with the id of a deployment has its name, if it is known by then.
func TestF54DeploymentsHaveNames(t *testing.T) {
	t.Parallel()
	var (
		out   bytes.Buffer
		names logs.Names
	)
	l := slog.New(names.Handler(logs.New(&out, logs.Options{}).Handler()))
	l.Info("early", "deployment", "7")
	names.Set(func(id string) string {
		return map[string]string{"7": "projects/p/composite-apps/a/v1/deployment-intent-groups/g", "8": "projects/p/logical-clouds/l"}[id]
	})
	l.Info("late", "deployment", "7", "took", time.Second)
	l.With("deployment", "8").WithGroup("more").Info("bound")
	l.Info("unknown", "deployment", "9")
	want := []line{
		{Level: "INFO", Msg: "early", Deployment: "7"},
		{Level: "INFO", Msg: "late", Deployment: "7", DeploymentName: "p/a/v1/g", Took: "1s"},
		{Level: "INFO", Msg: "bound", Deployment: "8", DeploymentName: "p/l"},
		{Level: "INFO", Msg: "unknown", Deployment: "9"},
	}
	got := lines(t, out.String())
	if len(got) != len(want) {
		t.Fatalf("got %s", out.String())
	}
	for i, w := range want {
		if got[i] != w {
			t.Errorf("got  %+v\nwant %+v", got[i], w)
		}
	}
}
