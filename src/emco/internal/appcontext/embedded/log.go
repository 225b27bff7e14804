package embedded

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logger passes etcd's errors on to l. What etcd calls fatal panics and does not exit:
// the process is ours, and Start makes an error of it.
func logger(l *slog.Logger) *zap.Logger {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return zap.New(core{LevelEnabler: zapcore.ErrorLevel, log: l}, zap.WithFatalHook(zapcore.WriteThenPanic))
}

// core is a zapcore.Core that writes to slog.
type core struct {
	zapcore.LevelEnabler
	log *slog.Logger
}

// With returns a core that adds fields to each line.
func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{LevelEnabler: c.LevelEnabler, log: slog.New(c.log.Handler().WithAttrs(attrs(fields)))}
}

// Check adds the core to e if e's level is high enough.
func (c core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

// Write logs one line. The message is etcd's own.
func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	list := append([]slog.Attr{slog.String("what", e.Message)}, attrs(fields)...)
	c.log.LogAttrs(context.Background(), slog.LevelError, "embedded etcd", list...)
	return nil
}

// Sync does nothing: slog keeps nothing back.
func (core) Sync() error { return nil }

// attrs returns fields in order of their names.
func attrs(fields []zapcore.Field) []slog.Attr {
	m := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(m)
	}
	list := make([]slog.Attr, 0, len(m.Fields))
	for _, name := range slices.Sorted(maps.Keys(m.Fields)) {
		list = append(list, slog.Any(name, m.Fields[name]))
	}
	return list
}
