package logs

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Zap returns a zap logger whose lines go to l, from a level on. What the library calls fatal
// panics and does not exit: the process is ours.
func Zap(l *slog.Logger, library string, from zapcore.Level) *zap.Logger {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return zap.New(core{LevelEnabler: from, log: l.With(component, library)}, zap.WithFatalHook(zapcore.WriteThenPanic))
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

// Write logs one line. The message is the library's own.
func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	list := attrs(fields)
	c.log.LogAttrs(context.Background(), levelOf(e, list), e.Message, list...)
	return nil
}

// Sync does nothing: slog keeps nothing back.
func (core) Sync() error { return nil }

// levelOf returns the level of a line. A new etcd calls it an error that it has no snapshot
// yet that shows the version of its storage; it tries again until it has one.
func levelOf(e zapcore.Entry, fields []slog.Attr) slog.Level {
	switch {
	case e.Level >= zapcore.ErrorLevel && e.Message == "failed to update storage version" && undetected(fields):
		return slog.LevelDebug
	case e.Level >= zapcore.ErrorLevel:
		return slog.LevelError
	case e.Level == zapcore.WarnLevel:
		return slog.LevelWarn
	case e.Level == zapcore.InfoLevel:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func undetected(fields []slog.Attr) bool {
	return slices.ContainsFunc(fields, func(a slog.Attr) bool {
		return a.Key == "err" && strings.Contains(a.Value.String(), "cannot detect storage schema version")
	})
}

// attrs returns fields in order of their names. What zap calls "error" is "err" in our lines.
func attrs(fields []zapcore.Field) []slog.Attr {
	m := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(m)
	}
	list := make([]slog.Attr, 0, len(m.Fields))
	for _, name := range slices.Sorted(maps.Keys(m.Fields)) {
		key := name
		if key == "error" {
			key = "err"
		}
		list = append(list, slog.Any(key, m.Fields[name]))
	}
	return list
}
