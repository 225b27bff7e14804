// Package logs writes the program's log: one line per event, all with the same members, also
// those of libraries. It leaves out warnings and errors that repeat too often, and logs their number.
//
//	time, level, msg    of each line
//	component           the library that logs: etcd, grpc, kubernetes, library; absent for EMCO itself
//	deployment          the id of a deployment, as in Git paths and labels
//	deploymentName      project/composite app/version/group of that id
//	err                 what went wrong
//	trace               the id of the trace that a request began, if it is recorded
//	took                a duration, such as "1.5s"
package logs

import (
	"io"
	"log/slog"
	"time"

	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zapgrpc"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"
)

// Options are the level and the format of lines.
type Options struct {
	Level slog.Level // the lowest that is written
	Text  bool       // key=value; otherwise JSON
}

// New returns a logger that writes lines to w.
func New(w io.Writer, o Options) *slog.Logger {
	h := &slog.HandlerOptions{Level: o.Level, ReplaceAttr: readable}
	if o.Text {
		return slog.New(slog.NewTextHandler(w, h))
	}
	return slog.New(slog.NewJSONHandler(w, h))
}

// readable writes durations as people read them.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().Round(time.Microsecond).String())
	}
	return a
}

// component is the attribute that names the library that logs.
const component = "component"

// CaptureLibraries has Kubernetes' libraries, gRPC and the standard logger write to l. These
// have one logger for the whole process, so only the program itself may call it, once.
func CaptureLibraries(l *slog.Logger) {
	klog.SetSlogLogger(l.With(component, "kubernetes"))
	grpclog.SetLoggerV2(zapgrpc.NewLogger(Zap(l, "grpc", zapcore.ErrorLevel)))
	slog.SetDefault(l.With(component, "library"))
}
